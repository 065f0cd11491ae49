"""Graphs of google-adk as graphs of actors."""
