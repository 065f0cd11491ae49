"""The nouns that travel between actors."""
