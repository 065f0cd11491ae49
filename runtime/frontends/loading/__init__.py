"""Loads apps: finds the code that a path names, and the root agent in it."""
