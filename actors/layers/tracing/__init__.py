"""Spans of turns, of runs, and of their calls, as telemetry gets them."""
