"""Deletes recorded calls of a session, and the parts of requests that no other call has."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from actors.messages.codec import decode
from actors.messages.llm.recorded import PackedCall
from actors.rules.recording.packing import reachable
from runtime.stores.sql.model_calls.reading import pages
from runtime.stores.sql.schema import model_call_parts, model_calls


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
