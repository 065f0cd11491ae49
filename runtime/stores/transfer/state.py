"""Which deployment owns a store, as the store says. Nothing is changed by asking."""

from __future__ import annotations

from sqlalchemy import select

from runtime.stores.sql import schema
from runtime.stores.sql.database import Database


def owner_of(url: str, app: str) -> str | None:
    """The deployment of an app that owns a session store, by its id; "": none. None: the store does not say.

    Raises StoreError.
    """
    database, owners = Database(url), schema.owners
    path = database.path
    if path is not None and not path.is_file():
        return ""
    database.open()
    try:
        with database.store_errors(), database.snapshot() as connection:
            if not connection.dialect.has_table(connection, owners.name):
                return None
            row = connection.execute(select(owners.c.deployment, owners.c.inode).where(owners.c.app == app)).first()
            # A copy of a SQLite file has the row, too.
            is_this = row is not None and (path is None or row.inode == path.stat().st_ino)
            return str(row.deployment) if row is not None and is_this else ""
    finally:
        database.close()
