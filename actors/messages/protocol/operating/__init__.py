"""Messages about what operators want to know."""
