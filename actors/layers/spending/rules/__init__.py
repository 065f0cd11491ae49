"""Decisions about budgets and usage, without event loop, clock or log."""
