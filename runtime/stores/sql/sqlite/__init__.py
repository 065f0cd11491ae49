"""What only SQLite has."""
