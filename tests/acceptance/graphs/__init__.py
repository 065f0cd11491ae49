"""Graphs through the public API, on both engines."""
