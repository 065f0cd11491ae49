"""Checks of everything that enters: ids, sizes, messages, state and model responses."""
