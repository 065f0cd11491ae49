"""The command `raygrove`, and events in a few words."""
