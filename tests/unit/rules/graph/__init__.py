"""Rules of graphs."""
