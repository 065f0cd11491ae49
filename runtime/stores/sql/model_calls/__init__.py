"""Reads and deletes the records of model calls in the session store."""
