"""Graphs: which nodes run next."""
