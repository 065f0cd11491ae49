"""Batches in the session store: how they are read and changed."""
