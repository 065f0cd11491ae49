"""Budgets, kept by the Session actor: what is used of them, and what is reserved."""
