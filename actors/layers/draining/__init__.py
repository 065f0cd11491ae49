"""Draining: a deployment that is to be stopped begins no new turns."""
