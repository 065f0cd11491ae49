"""Background runs: agents that work on in turns of their own, and whose end is a message to the agent that has started them."""
