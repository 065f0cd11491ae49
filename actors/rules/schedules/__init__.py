"""Schedules: when they are due, what becomes of due times that were missed, and what may be asked for."""
