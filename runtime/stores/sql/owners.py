"""The one deployment of an app that owns a store, by a lease in it; and who else uses a store, as far as its database can tell.

Rules of this file:

- A deployment becomes the owner in the transaction in which a Session actor takes its place, before anything is read. Deployments
  that open a store at once do so one after the other.
- The places of an owner's writers go with its ownership: what it commits afterwards is refused.
- A lease is measured by the clock of the database's machine: on PostgreSQL by the server's, for SQLite by that of this one. Where
  that was set back, who waits for its end waits no longer than it lasts.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, func, select, text, update

from actors.errors import StoreError, StoreUnavailableError
from actors.messages import codec
from runtime.stores.owner import StoreOwner
from runtime.stores.sql import schema
from runtime.stores.sql.database import APPLICATION_NAME, Database, SqlTransaction
from runtime.stores.sql.statements import upsert
from runtime.stores.taking_over import Presence, Verdict, verdict

LEASE_S = 15.0
"""How long a lease lasts that is not renewed, in seconds."""

RENEW_S = 5.0
"""How often an owner renews its lease, in seconds."""

_owners = schema.owners
_PUT = upsert(_owners)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext(:name))")
_NOW = text("SELECT extract(epoch FROM clock_timestamp())::double precision")


class _SeenLease(NamedTuple):
    """The lease of another owner, as it was seen first. `seen_s`: when, in seconds that only go forward."""

    deployment: str
    until_s: float
    seen_s: float


class Ownership:
    """A deployment's ownership of a store.

    Args:
        store: the store in words, for errors.
        path: the file of a SQLite database; None on PostgreSQL.
    """

    def __init__(self, owner: StoreOwner, store: str, path: Path | None) -> None:
        self.owner = owner
        self._store = store
        self._path = path
        self._seen: _SeenLease | None = None

    def take_ownership(self, transaction: SqlTransaction) -> None:
        """Own the store from now on.

        Raises:
            StoreInUseError: another deployment of the app owns it, and lives.
            StoreUnavailableError: whether it lives is known only when it renews its lease, or the lease runs out.
        """
        connection = transaction.connection
        self._lock(connection)
        mine, inode = self.owner.deployment, _inode(self._path)
        row = connection.execute(select(_owners).where(_owners.c.app == self.owner.app)).first()
        if row is not None and row.deployment != mine:
            if row.inode == inode:
                self._check(row, _now_s(connection))
            connection.execute(delete(schema.writers).where(schema.writers.c.deployment == row.deployment))
        owner = (self.owner.app, mine, _now_s(connection) + LEASE_S, inode, msgspec.json.encode(self.owner))
        transaction.send(_PUT, [owner])

    def _check(self, row: Row[*tuple[Any, ...]], now_s: float) -> None:
        first = self._seen if self._seen is not None and self._seen.deployment == row.deployment else None
        before, left_s = _owner(row), row.until_s - now_s
        if first is not None and first.until_s == row.until_s:
            # It was not renewed meanwhile, whatever the clock says: that may have been set back.
            left_s = min(left_s, LEASE_S - (time.monotonic() - first.seen_s))
        match _verdict(before, left_s, is_renewed=first is not None and first.until_s != row.until_s):
            case Verdict.REFUSE:
                self._seen = None
                raise before.in_use(self._store)
            case Verdict.WAIT:
                self._seen = first or _SeenLease(row.deployment, row.until_s, time.monotonic())
                left = f"{min(left_s, LEASE_S):.1f} s"
                reason = f"app {before.app!r} was run on host {before.process.host!r}, and owns it for {left} yet"
                raise StoreUnavailableError(self._store, reason)

    def renew(self, connection: Connection) -> None:
        """Renew the lease."""
        mine = (_owners.c.app == self.owner.app, _owners.c.deployment == self.owner.deployment)
        connection.execute(update(_owners).where(*mine).values(until_s=_now_s(connection) + LEASE_S))

    def leave(self, connection: Connection) -> None:
        """Give the store up, once no writer of the deployment has a place in it."""
        self._lock(connection)
        writers = select(func.count()).where(schema.writers.c.deployment == self.owner.deployment).select_from(schema.writers)
        if not connection.execute(writers).scalar_one():
            mine = (_owners.c.app == self.owner.app, _owners.c.deployment == self.owner.deployment)
            connection.execute(delete(_owners).where(*mine))

    def _lock(self, connection: Connection) -> None:
        # SQLite has one transaction that writes at a time.
        if connection.dialect.name == "postgresql":
            connection.execute(_LOCK, {"name": f"raygrove owner of {self.owner.app}"})


def _verdict(owner: StoreOwner, left_s: float, *, is_renewed: bool) -> Verdict:
    process = owner.process.presence()
    return verdict(
        left_s=left_s,
        is_renewed=is_renewed,
        process=process,
        driver=owner.driver.presence() if owner.driver is not None else None,
        can_restart=process is Presence.GONE and owner.can_restart(),
    )


def _owner(row: Row[*tuple[Any, ...]]) -> StoreOwner:
    return codec.decode_json(bytes(row.owner), StoreOwner)


def _now_s(connection: Connection) -> float:
    return time.time() if connection.dialect.name == "sqlite" else float(connection.execute(_NOW).scalar_one())


def _inode(path: Path | None) -> int:
    with suppress(OSError):
        return os.stat(path).st_ino if path is not None else 0
    return 0


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
    """A deployment, of any app, that owns a store and lives, or may live. Nothing is changed."""
    path = database.path
    if path is not None and not path.is_file():
        return None
    # What fails is raised when the store is opened.
    with suppress(StoreError), database.store_errors(), database.snapshot() as connection:
        if connection.dialect.has_table(connection, _owners.name):
            for row in connection.execute(select(_owners).where(_owners.c.inode == _inode(path))).fetchall():
                if _verdict(_owner(row), row.until_s - _now_s(connection), is_renewed=True) is Verdict.REFUSE:
                    return _owner(row)
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
