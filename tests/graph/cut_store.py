"""A store that takes no more after some events: the program is lost there, and what the store has is all that is left."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import StoreError
from actors.interfaces.records import AddEvent, PutTurn, Write
from actors.messages.codec import decode_event
from actors.messages.event import USER, Event
from runtime.stores.sql.sessions import SqlSessionStore


class CutStore(SqlSessionStore):
    """Stores so many events that users see, with what belongs to them, and then nothing any more.

    Args:
        url: of the database.
        events: so many.

    Attributes:
        seen: the events that users see which it has stored.
    """

    def __init__(self, url: str, events: int) -> None:
        super().__init__(url)
        self._most = events
        self.seen: list[Event] = []

    def commit(self, writes: Sequence[Write]) -> None:
        """Store what is before the cut. Raises StoreError once it is reached: nobody hears of the last event."""
        if len(self.seen) < self._most:
            super().commit([write for write in writes if self._takes(write)])
        if len(self.seen) == self._most:
            raise StoreError("the program was lost here")

    def _takes(self, write: Write) -> bool:
        is_full = len(self.seen) == self._most
        if isinstance(write, AddEvent):
            event = decode_event(write.row.raw, write.row.seq)
            if not is_full and is_seen(event):
                self.seen.append(event)
            return not is_full
        return not (is_full and isinstance(write, PutTurn))


def is_seen(event: Event) -> bool:
    """True for an event that the cases show: of agents and nodes, and no note."""
    is_note = event.actions.agent_state is not None or (event.node_info is not None and event.node_info.is_note)
    return event.author != USER and not is_note
