"""Agents' processes: which there are, who lives where, and who makes room."""
