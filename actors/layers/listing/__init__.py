"""Turns as data: they are listed, counted, and shown with what they wait for."""
