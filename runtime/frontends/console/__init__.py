"""The command `raygrove`, and events as lines of text."""
