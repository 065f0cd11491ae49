"""Who uses a store: the deployment that owns it, or another process that has it open, as far as its database can tell."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import select, text

from actors.errors import StoreError
from runtime.stores.owner import StoreOwner
from runtime.stores.sql import schema
from runtime.stores.sql.database import APPLICATION_NAME, Database
from runtime.stores.sql.owners import living

_WAIT_S = 1.0
"""A connection that was closed just now may be seen for so long: PostgreSQL ends the process that served it."""


def refuse_if_in_use(database: Database, instead: str, instead_locally: str = "") -> None:
    """Raise StoreError when a deployment that lives owns the database, or another process has it open.

    SQLite tells by its locks. PostgreSQL tells by the names of its connections, which a pooler between may hide.

    Args:
        instead: what to do then.
        instead_locally: what to do where the app runs on the local engine, which has no address; "": the same.
    """
    owner = _living_owner(database)
    if owner is not None:
        advice = instead if owner.address else instead_locally or instead
        raise StoreError(f"{database} is in use: app {owner.app!r} runs {owner.where()}: {advice}")
    path = database.path
    is_used = _is_locked(path) if path is not None else not database.is_sqlite and _is_connected(database)
    if is_used:
        raise StoreError(f"{database} is in use: {instead}")


def _living_owner(database: Database) -> StoreOwner | None:
    path = database.path
    if path is not None and not path.is_file():
        return None
    # What fails is raised when the store is opened.
    with suppress(StoreError), database.store_errors(), database.snapshot() as connection:
        return living(connection, path)
    return None


def _is_locked(path: Path) -> bool:
    if not path.is_file():
        return False
    with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection:
        try:
            # In this mode a connection shares its file with no other.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            # Any other failure is raised when the store is opened.
            return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    return False


def _is_connected(database: Database) -> bool:
    others = text(
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND application_name = {APPLICATION_NAME} AND pid <> pg_backend_pid()"
    )
    until_s = time.monotonic() + _WAIT_S
    while (is_connected := bool(database.rows(others, {})[0][0])) and time.monotonic() < until_s:
        time.sleep(_WAIT_S / 20)
    return is_connected


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
