"""What a store says of itself: which tables it has, and which deployment owns it. Nothing is changed by asking."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Table, select

from runtime.stores import memory
from runtime.stores.sql import schema
from runtime.stores.sql.database import Database


class StoreState(NamedTuple):
    """A store as it is.

    Attributes:
        name: the store in words, without a password.
        version: of its tables; 0: it has none yet.
        known: the version that this program knows, to which opening it for a deployment brings it.
        deployment: the id of the deployment of the app that owns it; "": none. None: it is of a version that does not say.
    """

    name: str
    version: int
    known: int
    deployment: str | None = None


def session_store_state(url: str, app: str) -> StoreState:
    """The state of a store of sessions. Raises StoreError."""
    return _state(Database(url), schema.schema_version, schema.VERSION, app)


def memory_store_state(url: str) -> StoreState:
    """The state of a store of memory. Raises StoreError."""
    return _state(Database(url, "memory store"), memory.schema_version, memory.VERSION)


def _state(database: Database, versions: Table, known: int, app: str = "") -> StoreState:
    path = database.path
    if path is not None and not path.is_file():
        return StoreState(str(database), 0, known, "")
    database.open()
    try:
        with database.store_errors(), database.snapshot() as connection:
            owner = _owner(connection, app, path) if app else None
            return StoreState(str(database), _version(connection, versions), known, owner)
    finally:
        database.close()


def _version(connection: Connection, versions: Table) -> int:
    if not connection.dialect.has_table(connection, versions.name):
        return 0
    return schema.stored_version(connection, versions)


def _owner(connection: Connection, app: str, path: Path | None) -> str | None:
    owners = schema.owners
    if not connection.dialect.has_table(connection, owners.name):
        return None
    row = connection.execute(select(owners.c.deployment, owners.c.inode).where(owners.c.app == app)).first()
    # A copy of a SQLite file has the row, too.
    is_this = row is not None and (path is None or row.inode == path.stat().st_ino)
    return str(row.deployment) if row is not None and is_this else ""
