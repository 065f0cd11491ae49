"""Logs in memory, and what is read of them from the store."""
