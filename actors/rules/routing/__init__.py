"""Which agent runs next."""
