"""What only PostgreSQL has."""
