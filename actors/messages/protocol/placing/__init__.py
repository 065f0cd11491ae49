"""Several stores: which of them belong together, and which of them a user is in."""
