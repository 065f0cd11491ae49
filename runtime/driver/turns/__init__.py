"""Turns: what a program holds of them, and how they are started, joined, answered and cancelled."""
