"""Definitions on their way to other processes."""
