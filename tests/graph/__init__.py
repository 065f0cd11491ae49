"""Graphs of recorded cases, built of this project's classes and played on its engines."""
