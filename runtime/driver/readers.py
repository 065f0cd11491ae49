"""Those who iterate over a turn: what each has yet to be told, and what the next one begins with."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.protocol.base import StoredEvent
from actors.rules.delivery.event_buffer import EventBuffer


class TurnReaders:
    """The backlogs of one turn. Not for several threads at once: the turn has a lock.

    The first reader is told the pieces of streamed answers that have come before it; then they are not kept any more, since
    the complete events say the same.

    Args:
        after_seq: the place of the last event that nobody wants to be told.
    """

    def __init__(self, after_seq: int) -> None:
        self._kept = EventBuffer(after_seq)
        self._keeps_pieces = True
        self._open: list[EventBuffer] = []

    @property
    def after_seq(self) -> int:
        """The place of the last complete event that has come."""
        return self._kept.head_seq

    def put(self, events: Sequence[StoredEvent]) -> None:
        """Events have come. One that came before, because the turn is followed twice, is passed over."""
        for event in events:
            if event.seq or self._keeps_pieces:
                self._kept.put(event)
            for backlog in self._open:
                backlog.put(event)

    def skip(self, seq: int) -> None:
        """Nobody wants to be told what stands up to that place."""
        for backlog in (self._kept, *self._open):
            backlog.skip(seq)

    def open(self) -> EventBuffer:
        """What a new reader has to be told."""
        backlog = self._kept.copy()
        self._open.append(backlog)
        if self._keeps_pieces:
            self._keeps_pieces = False
            self._kept.drop_partials()
        return backlog

    def close(self, backlog: EventBuffer) -> None:
        """A reader reads no further."""
        self._open = [each for each in self._open if each is not backlog]

    def copy(self) -> EventBuffer:
        """What has come, for a reader who wants nothing that follows."""
        return self._kept.copy()
