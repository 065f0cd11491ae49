"""Batches: reports of maps and evaluations."""
