"""Logs of agents: records and prints on their way from the process of an agent to files, and to the programs that want them."""
