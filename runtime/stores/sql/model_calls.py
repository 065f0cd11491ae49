"""The records of model calls in the session store: how they are read and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, or_, select

from actors.layers.recording.rules import reachable
from actors.layers.stores.records import ModelCallRow
from actors.messages.codec import decode
from actors.messages.protocol.log import PackedCall
from runtime.stores.sql.schema import model_call_parts, model_calls, sessions
from runtime.stores.sql.statements import pages

CALLS = (
    select(model_calls)
    .where(model_calls.c.sid == bindparam("sid"), model_calls.c.invocation_id == bindparam("invocation_id"))
    .order_by(model_calls.c.begun_s, model_calls.c.id)
    .limit(bindparam("limit"))
)
"""The calls of a turn, oldest first: sid, invocation_id, limit."""

CALLS_AFTER = CALLS.where(
    or_(
        model_calls.c.begun_s > bindparam("after_s"),
        (model_calls.c.begun_s == bindparam("after_s")) & (model_calls.c.id > bindparam("after_id")),
    )
)
"""Those after another one: after_s, after_id, too."""

PARTS = select(model_call_parts.c.digest, model_call_parts.c.raw).where(
    model_call_parts.c.sid == bindparam("sid"), model_call_parts.c.digest.in_(bindparam("digests", expanding=True))
)
"""Parts of requests of a session: sid, digests."""

SESSIONS_WITH_OLD = (
    select(sessions.c.user, sessions.c.session)
    .distinct()
    .where(sessions.c.app == bindparam("app"), sessions.c.sid == model_calls.c.sid, model_calls.c.begun_s < bindparam("before_s"))
    .limit(bindparam("limit"))
)
"""Users and ids of sessions with calls from before a time: app, before_s, limit."""


def model_call_row(row: Any) -> ModelCallRow:
    """The record of a call, of a row with its columns by their names."""
    return ModelCallRow(id=row.id, invocation_id=row.invocation_id, seq=row.seq, begun_s=row.begun_s, raw=bytes(row.raw))


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
            found.update((bytes(digest), bytes(raw)) for digest, raw in connection.execute(PARTS, {"sid": sid, "digests": some}))
        return found

    needed = reachable(requests, groups)
    there = connection.execute(select(model_call_parts.c.digest).where(of_session)).scalars()
    unused = [digest for each in there if (digest := bytes(each)) not in needed]
    for some in pages(unused):
        connection.execute(delete(model_call_parts).where(of_session, model_call_parts.c.digest.in_(some)))
