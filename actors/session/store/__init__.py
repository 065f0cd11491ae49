"""The way to the store: one thread, group commits, and ends of turns that wait for it."""
