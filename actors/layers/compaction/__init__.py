"""Compaction: summaries in place of what a long conversation began with."""
