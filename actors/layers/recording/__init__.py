"""Recorded model calls."""
