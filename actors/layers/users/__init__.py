"""Deleting all data of a user."""
