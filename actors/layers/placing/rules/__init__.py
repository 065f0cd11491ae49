"""Several stores: which of them has a user, and which stores belong together."""
