"""Decisions about nodes and processes, without Ray, event loop, clock or log."""
