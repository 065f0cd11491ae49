"""Turns of a session: opening, recovering, writing and ending them."""
