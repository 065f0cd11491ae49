"""The HTTP service, by real clients."""
