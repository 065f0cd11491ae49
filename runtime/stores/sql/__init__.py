"""The session store on SQLAlchemy: SQLite and PostgreSQL."""
