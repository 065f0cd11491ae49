"""Finds the write that has violated a constraint.

Neither database names the row in a form to rely on, so each write is compared with the tables and with the writes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.errors import StoreConflictError
from actors.interfaces.stores import AddEvent, CreateSession, Write
from actors.messages.session import SessionKey
from runtime.stores.sql import queries
from runtime.stores.sql.batch import GONE
from runtime.stores.sql.database import Rows


def find_conflict(
    writes: Sequence[Write], sid_of: Callable[[SessionKey], int | None], rows: Callable[..., Rows]
) -> StoreConflictError | None:
    """The first conflict of writes that were rolled back, or None.

    Args:
        sid_of: looks up a session's sid.
        rows: runs a query, its parameters by keyword.
    """
    stored: set[tuple[SessionKey, int | str]] = set()
    for write in writes:
        if isinstance(write, AddEvent):
            sid = sid_of(write.key)
            taken = [] if sid is None else rows(queries.TAKEN, sid=sid, seq=write.row.seq, id=write.row.head.id)
            reason = _reason(write, taken, stored)
            if reason is not None:
                return StoreConflictError(write.key.session, reason)
            stored |= {(write.key, write.row.seq), (write.key, write.row.head.id)}
    created = {write.key for write in writes if isinstance(write, CreateSession)}
    for key in dict.fromkeys(write.key for write in writes):
        if key.session and key not in created and sid_of(key) is None:
            return StoreConflictError(key.session, GONE)
    return None


def _reason(write: AddEvent, taken: Rows, stored: set[tuple[SessionKey, int | str]]) -> str | None:
    """Why an event cannot be stored: its id or its seq is taken by a row, or by an earlier write."""
    seq, event_id = write.row.seq, write.row.head.id
    if (write.key, event_id) in stored or any(row.id == event_id for row in taken):
        return f"event {event_id!r} is there already"
    if (write.key, seq) in stored or taken:
        return f"place {seq} of its log is taken"
    return None
