"""Simulations of the protocol of connections: both sides as they are, and a network that does its worst."""
