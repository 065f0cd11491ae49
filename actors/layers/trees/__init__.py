"""The tree of a deployment: it is checked, told apart from others, and divided among processes. Actors get an AgentSpec of it."""
