"""How often processes were lost in a turn."""
