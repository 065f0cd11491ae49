"""The stores of sessions, artifacts and memory."""
