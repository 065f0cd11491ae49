"""Rows of one session, found by its sid, which is known for the sessions that were used last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Select

from actors.interfaces.records import SessionRow
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey
from runtime.stores.sql import queries
from runtime.stores.sql.batch import MAX_SIDS, Sids
from runtime.stores.sql.database import Database, Rows, Tuples

T = TypeVar("T")


class SessionRows:
    """Runs queries about one session each.

    Args:
        database: where they are run.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sids = Sids(MAX_SIDS)
        self._connections = 0

    def rows(self, key: SessionKey, query: Any, **parameters: Any) -> Rows:
        """The rows that a query finds by a session's sid; none when there is no such session. Raises StoreError."""
        return self._found(key, lambda sid: self._database.rows(query, {"sid": sid, **parameters}))

    def tuples(self, key: SessionKey, query: Select[Any], **parameters: Any) -> Tuples:
        """The same as its driver has them: see `Database.tuples`."""
        return self._found(key, lambda sid: self._database.tuples(query, {"sid": sid, **parameters}))

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
            found = self._database.rows(queries.SID, {"app": key.app, "user": key.user, "session": key.session})
            if not found:
                return None
            sid = self.sids()[key] = found[0].sid
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
