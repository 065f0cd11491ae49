"""Which agents run in a turn, and how each run is sent, repeated and stopped."""
