"""Turns of a session: opening, recovering, writing and ending them, and what is done to a session between its turns."""
