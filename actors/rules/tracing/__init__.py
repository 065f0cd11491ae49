"""How spans are named, so that every process that tells of the same thing gives it the same id."""
