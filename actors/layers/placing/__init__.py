"""A Session actor's store as one of several."""
