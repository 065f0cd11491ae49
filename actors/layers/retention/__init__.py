"""Pruning old sessions, and archiving old events of long ones."""
