"""Compaction: when earlier events are summarised, which, and what requests show in their place (semantics.md 5.8)."""
