"""HTTP for the clients of models' services."""
