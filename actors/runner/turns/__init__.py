"""Turns of a Runner: starting, resuming, running and cancelling them."""
