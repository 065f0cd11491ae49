"""Drivers that follow turns, and the news that waits for each of them."""
