"""What a reader gets of a turn's events, and what may be left out for a slow one."""
