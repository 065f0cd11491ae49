"""The records of model calls in the session store: how they are read and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, or_, select

from actors.layers.recording.rules import reachable
from actors.layers.stores.records import ModelCallRow
from actors.messages.codec import decode
from actors.messages.protocol.log import PackedCall
from actors.messages.session import SessionKey
from runtime.stores.sql.database import Rows
from runtime.stores.sql.schema import model_call_parts, model_calls, sessions

MAX_DIGESTS = 500
"""Digests in one statement."""

_of_turn = (
    select(model_calls)
    .where(model_calls.c.sid == bindparam("sid"), model_calls.c.invocation_id == bindparam("invocation_id"))
    .order_by(model_calls.c.begun_s, model_calls.c.id)
    .limit(bindparam("limit"))
)
_AFTER = or_(
    model_calls.c.begun_s > bindparam("after_s"),
    (model_calls.c.begun_s == bindparam("after_s")) & (model_calls.c.id > bindparam("after_id")),
)
_OF_TURN, _OF_TURN_AFTER = _of_turn, _of_turn.where(_AFTER)
_PARTS = select(model_call_parts.c.digest, model_call_parts.c.raw).where(
    model_call_parts.c.sid == bindparam("sid"), model_call_parts.c.digest.in_(bindparam("digests", expanding=True))
)
_OLD = (
    select(sessions.c.user, sessions.c.session)
    .distinct()
    .where(sessions.c.app == bindparam("app"), sessions.c.sid == model_calls.c.sid, model_calls.c.begun_s < bindparam("before_s"))
    .limit(bindparam("limit"))
)


class ModelCallReader:
    """Reads recorded calls.

    Args:
        of_session: gives the rows that a query finds by a session's sid; none when there is no such session.
        rows: gives the rows that any other query finds.
    """

    def __init__(self, of_session: Callable[..., Rows], rows: Callable[..., Rows]) -> None:
        self._of_session = of_session
        self._rows = rows

    def calls(self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None, limit: int) -> list[ModelCallRow]:
        """See `SessionStore.model_calls`."""
        place: dict[str, Any] = {} if after is None else {"after_s": after[0], "after_id": after[1]}
        query = _OF_TURN if after is None else _OF_TURN_AFTER
        found = self._of_session(key, query, invocation_id=invocation_id, limit=limit, **place)
        return [
            ModelCallRow(id=row.id, invocation_id=row.invocation_id, seq=row.seq, begun_s=row.begun_s, raw=bytes(row.raw))
            for row in found
        ]

    def parts(self, key: SessionKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `SessionStore.model_call_parts`."""
        found: dict[bytes, bytes] = {}
        for some in pages(digests):
            found.update((bytes(digest), bytes(raw)) for digest, raw in self._of_session(key, _PARTS, digests=some))
        return found

    def sessions_with_old(self, app: str, before_s: float, limit: int) -> list[SessionKey]:
        """See `SessionStore.sessions_with_old_calls`."""
        return [SessionKey(app, *row) for row in self._rows(_OLD, app=app, before_s=before_s, limit=limit)]


def pages(digests: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Digests in batches that fit into one statement."""
    return (digests[first : first + MAX_DIGESTS] for first in range(0, len(digests), MAX_DIGESTS))


def delete_calls(connection: Connection, sid: int, which: ColumnElement[bool]) -> None:
    """Delete calls of a session.

    Args:
        which: of `schema.model_calls`.
    """
    if not connection.execute(delete(model_calls).where(model_calls.c.sid == sid, which)).rowcount:
        return
    left = connection.execute(select(model_calls.c.raw).where(model_calls.c.sid == sid)).scalars()
    requests = [request for raw in left if (request := decode(bytes(raw), PackedCall).request) is not None]
    of_session = model_call_parts.c.sid == sid

    def groups(digests: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for some in pages(digests):
            query = select(model_call_parts.c.digest, model_call_parts.c.raw)
            rows = connection.execute(query.where(of_session, model_call_parts.c.digest.in_(some)))
            found.update((bytes(digest), bytes(raw)) for digest, raw in rows)
        return found

    needed = reachable(requests, groups)
    there = connection.execute(select(model_call_parts.c.digest).where(of_session)).scalars()
    unused = [digest for each in there if (digest := bytes(each)) not in needed]
    for some in pages(unused):
        connection.execute(delete(model_call_parts).where(of_session, model_call_parts.c.digest.in_(some)))
