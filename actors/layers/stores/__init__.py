"""Stores of sessions with all that features keep in them."""
