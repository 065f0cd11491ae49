"""Recorded model calls: their parts, and what is masked of them."""
