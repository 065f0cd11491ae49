"""Turns of a Runner: prepared, started, resumed, run to their end and cancelled, and what their agents ask for."""
