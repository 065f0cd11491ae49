"""Flows: tasks, and the agents that work on them round by round (semantics.md section 7)."""
