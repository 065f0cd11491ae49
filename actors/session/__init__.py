"""The Session actor: the event log, the parent map, and the subscribers of turns."""
