"""Requests between processes over one connection per pair of them. Nothing in here knows Ray."""
