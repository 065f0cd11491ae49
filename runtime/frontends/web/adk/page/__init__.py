"""The page of `adk web`, unchanged, over this service: its files, graphs of the agents, and traces made of the log."""
