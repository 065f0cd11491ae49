"""Logs in memory after the store has gone back to an older copy of itself."""
