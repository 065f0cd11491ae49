"""Clients of actors: the only way from one actor to another."""
