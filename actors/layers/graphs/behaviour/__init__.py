"""What a graph does: its nodes, one by one and together."""
