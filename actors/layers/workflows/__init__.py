"""Workflow agents: sequence, loop and parallel, as supervisors of their children (semantics.md section 4)."""
