"""Moving whole stores: copies from database to database, backups, and JSON lines."""
