"""The limiter actor: it grants permits for model calls."""
