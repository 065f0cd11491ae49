"""Sessions, artifacts and memory, sync and async."""
