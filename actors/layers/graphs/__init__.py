"""Graphs: agents and functions as nodes, and the edges between them (semantics.md section 8)."""
