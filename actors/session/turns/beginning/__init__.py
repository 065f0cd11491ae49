"""How a new turn begins: what is stored and replied, and the way that takes no task."""
