"""Blocks of archived events: compressed, small enough that a page of a log costs milliseconds to read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

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


_decoder = msgspec.msgpack.Decoder(list[ArchivedEvent])


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
