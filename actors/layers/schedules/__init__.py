"""Schedules: turns that start at times, and reminders of agents."""
