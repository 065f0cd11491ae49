"""What a deployment's tree of agents looks like to its users: parts of it, and searches."""
