"""The archive of a session's old events: their bytes, compressed in blocks, in the same database.

Rules of this file:

- Blocks are small enough that a page of a log costs milliseconds to read.
- A row that loses its content is deleted and inserted again: SQLite leaves the room of a row that is made smaller unused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select

from actors.errors import StoreError
from actors.messages import codec
from actors.messages.session import SessionKey
from runtime.stores.sql.database import Rows
from runtime.stores.sql.schema import ARCHIVED, archive, events

BLOCK_EVENTS = 256
"""Events of a block, at most."""

BLOCK_BYTES = 256_000
"""Their bytes before they are compressed, unless a single event has more."""


class ArchivedEvent(msgspec.Struct, frozen=True, array_like=True):
    """What of an event is in a block; all else stays in its row.

    Attributes:
        seq: its position in the log.
        raw: the event as its author encoded it.
        undo: the session state that it overwrote, encoded; b"": it overwrote none.
    """

    seq: int
    raw: bytes
    undo: bytes


_decoder = codec.decoder(list[ArchivedEvent])


def in_blocks(events: Iterable[ArchivedEvent]) -> Iterator[list[ArchivedEvent]]:
    """The events, in their order, by blocks."""
    block: list[ArchivedEvent] = []
    size = 0
    for event in events:
        more = len(event.raw) + len(event.undo)
        if block and (len(block) == BLOCK_EVENTS or size + more > BLOCK_BYTES):
            yield block
            block, size = [], 0
        block.append(event)
        size += more
    if block:
        yield block


def packed(block: Sequence[ArchivedEvent]) -> bytes:
    """The bytes of a block."""
    return zlib.compress(msgspec.msgpack.encode(block))


def unpacked(raw: bytes) -> list[ArchivedEvent]:
    """The events of a block. Raises ValueError when it is damaged."""
    try:
        return _decoder.decode(zlib.decompress(raw))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(f"a block of the archive is damaged: {error}") from error


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


_BLOCKS = (
    select(archive.c.raw)
    .where(
        archive.c.sid == bindparam("sid"),
        archive.c.last_seq >= bindparam("first_seq"),
        archive.c.first_seq <= bindparam("last_seq"),
    )
    .order_by(archive.c.first_seq)
)

Values = list[tuple[int, bytes]]
"""A value of each event, by its position."""


class ArchiveReader:
    """Puts the bytes of archived events in place of what stands for them in their rows.

    Args:
        rows: runs a query about one session, which has its sid and the parameters that are given by name.
        store: the store in words, for errors.
    """

    def __init__(self, rows: Callable[..., Rows], store: str) -> None:
        self._rows = rows
        self._store = store

    def raws(self, key: SessionKey, read: Callable[[], Values]) -> Values:
        """The bytes of events.

        Args:
            read: reads them from the rows.

        Raises:
            StoreError: the archive lacks some, or is damaged.
        """
        return self._whole(key, read, lambda event: event.raw)

    def undos(self, key: SessionKey, read: Callable[[], Values]) -> Values:
        """The state that events have overwritten: see `raws`."""
        return self._whole(key, read, lambda event: event.undo)

    def _whole(self, key: SessionKey, read: Callable[[], Values], value: Callable[[ArchivedEvent], bytes]) -> Values:
        lacking: list[int] = []
        # Another process may delete the session between two queries, and make it anew.
        for _ in range(2):
            values = read()
            archived = [seq for seq, found in values if found == ARCHIVED]
            if not archived:
                return values
            events = self._events(key, min(archived), max(archived))
            lacking = [seq for seq in archived if seq not in events]
            if not lacking:
                return [(seq, value(events[seq]) if found == ARCHIVED else found) for seq, found in values]
        raise StoreError(
            f"{self._store}: the archive of session {key.session!r} lacks {len(lacking)} events from {lacking[0]} on"
        )

    def _events(self, key: SessionKey, first_seq: int, last_seq: int) -> dict[int, ArchivedEvent]:
        blocks: Sequence[Sequence[bytes]] = self._rows(key, _BLOCKS, first_seq=first_seq, last_seq=last_seq)
        try:
            return {event.seq: event for (raw,) in blocks for event in unpacked(bytes(raw))}
        except ValueError as error:
            raise StoreError(f"{self._store}: session {key.session!r}: {error}") from error
