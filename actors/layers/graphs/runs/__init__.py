"""Runs that are nodes of graphs, or parts of such."""
