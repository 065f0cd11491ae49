"""What a model is given to read: history, instructions, and the agents that it may transfer to."""
