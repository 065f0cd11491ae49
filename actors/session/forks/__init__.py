"""Forks of sessions."""
