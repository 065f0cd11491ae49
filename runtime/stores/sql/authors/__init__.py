"""The agents that have spoken in each session: how that is kept as it is when events are hidden, or come from another store."""
