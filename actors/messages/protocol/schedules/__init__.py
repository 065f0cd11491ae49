"""Schedules: what programs and tools ask of them, and what is due."""
