"""Decisions of features."""
