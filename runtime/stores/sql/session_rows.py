"""Rows of one session, found by its sid, which is known for the sessions that were used last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Select

from actors.interfaces.stores import SessionRow
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey
from runtime.stores.sql import queries
from runtime.stores.sql.batch import MAX_SIDS, Sids
from runtime.stores.sql.database import Database, Rows, Tuples

T = TypeVar("T")


class _SessionColumns(NamedTuple):
    """The columns of `queries.SESSION`, in its order."""

    sid: int
    app: str
    user: str
    session: str
    rewinds: int
    created_s: float
    updated_s: float
    head_seq: int


class SessionRows:
    """Runs queries about one session each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sids = Sids(MAX_SIDS)
        self._connections = 0

    def session(self, key: SessionKey) -> SessionRow | None:
        """The record of a session: see `SqlSessionStore.session`. Raises StoreError."""
        while True:
            # As the driver has them: a turn of a session that is not in memory waits, and SQLAlchemy's rows double the time.
            found = self._database.tuples(queries.SESSION, columns_of(key), by_keys=True)
            if not found:
                return None
            row = _SessionColumns(*found[0])
            sid = self.sids()[key] = row.sid
            authors = tuple((author, seq) for author, seq in self._database.tuples(queries.AUTHORS, {"sid": sid}, by_keys=True))
            state = values_of(self._database.tuples(queries.STATE, {"sid": sid}, by_keys=True))
            if self.sids().get(key) == sid:
                return session_row(row, authors, state)

    def rows(self, key: SessionKey, query: Any, **parameters: Any) -> Rows:
        """The rows that a query finds by a session's sid; none when there is no such session. Raises StoreError."""
        return self._found(key, lambda sid: self._database.rows(query, {"sid": sid, **parameters}, by_keys=True))

    def tuples(self, key: SessionKey, query: Select[Any], **parameters: Any) -> Tuples:
        """The same as its driver has them: see `Database.tuples`."""
        return self._found(key, lambda sid: self._database.tuples(query, {"sid": sid, **parameters}, by_keys=True))

    def _found(self, key: SessionKey, read: Callable[[int], Sequence[T]]) -> Sequence[T]:
        while (sid := self.sid(key)) is not None:
            rows = read(sid)
            if self.sids().get(key) == sid:
                return rows
        return []

    def sid(self, key: SessionKey) -> int | None:
        """The sid of a session; None when there is no such session. Raises StoreError."""
        sid = self.sids().get(key)
        if sid is None:
            found = self._database.tuples(queries.SID, columns_of(key), by_keys=True)
            if not found:
                return None
            [(sid,)] = found
            self.sids()[key] = sid
        return sid

    def sids(self) -> Sids:
        """The sids that are known. Where an older copy is behind another connection, they may be those of other sessions."""
        if self._connections != self._database.connections:
            self._sids.clear()
            self._connections = self._database.connections
        return self._sids

    def forget_sids(self) -> None:
        """Look all sids up again."""
        self._sids.clear()


def session_row(row: Any, authors: tuple[tuple[str, int], ...], state: JsonObject) -> SessionRow:
    """The record of a session, of a row with its columns by their names."""
    return SessionRow(
        key=SessionKey(row.app, row.user, row.session),
        head_seq=row.head_seq,
        rewinds=row.rewinds,
        authors=authors,
        state=state,
        created_s=row.created_s,
        updated_s=row.updated_s,
    )


def columns_of(key: SessionKey) -> dict[str, Any]:
    """The parameters of queries that name a session."""
    return {"app": key.app, "user": key.user, "session": key.session}


def values_of(rows: Sequence[Sequence[Any]]) -> JsonObject:
    """A state, of rows with its keys and values."""
    return {name: msgspec.msgpack.decode(value) for name, value in rows}
