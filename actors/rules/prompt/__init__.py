"""What a model is shown: history, instructions, and the agents that it may transfer to."""
