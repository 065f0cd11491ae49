"""Moves events into the archive, in the transaction of a commit.

A row that loses its content is deleted and inserted again: SQLite leaves the room of a row that is made smaller unused.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from runtime.stores.sql.archive.blocks import ArchivedEvent, in_blocks, packed
from runtime.stores.sql.schema import ARCHIVED, archive, events

_of = (events.c.sid == bindparam("of_sid"), events.c.seq <= bindparam("until_seq"), events.c.raw != ARCHIVED)
_EVENTS = select(events).where(*_of).order_by(events.c.seq)
_DELETE = delete(events).where(*_of)
_INSERT = insert(events)
_BLOCK = insert(archive)


def move_into_archive(connection: Connection, sid: int, last_seq: int) -> None:
    """Move all events of a session up to a position that are not archived yet.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database failed.
    """
    of = {"of_sid": sid, "until_seq": last_seq}
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(_EVENTS, of).mappings()]
    if not rows:
        return
    found = (ArchivedEvent(row["seq"], bytes(row["raw"]), bytes(row["undo"] or b"")) for row in rows)
    blocks = [
        {"sid": sid, "first_seq": block[0].seq, "last_seq": block[-1].seq, "raw": packed(block)} for block in in_blocks(found)
    ]
    connection.execute(_BLOCK, blocks)
    connection.execute(_DELETE, of)
    left = [{**row, "raw": ARCHIVED, "undo": ARCHIVED if row["undo"] is not None else None} for row in rows]
    connection.execute(_INSERT, left)
