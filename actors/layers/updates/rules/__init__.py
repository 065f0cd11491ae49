"""Versions of a tree: how two of them differ, which one a turn gets, and what an update makes of the record."""
