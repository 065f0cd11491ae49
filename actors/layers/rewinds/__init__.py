"""Rewinds of sessions."""
