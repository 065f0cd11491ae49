"""A store that takes no more after some events: the program is lost there, and what the store has is all that is left."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import StoreError
from actors.interfaces.records import AddEvent, PutTurn, Write
from actors.messages.codec import decode_event
from actors.messages.event import USER, Event
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore


class CutStore(SqlSessionStore):
    """Stores so many events that users see, with what belongs to them, and then nothing any more.

    Args:
        url: of the database.
        events: so many.
    """

    def __init__(self, url: str, events: int) -> None:
        super().__init__(url)
        self._most = events
        self._seen = 0

    def commit(self, writes: Sequence[Write]) -> None:
        """Store what is before the cut. Raises StoreError once it is reached: nobody hears of the last event."""
        if self._seen < self._most:
            super().commit([write for write in writes if self._takes(write)])
        if self._seen == self._most:
            raise StoreError("the program was lost here")

    def _takes(self, write: Write) -> bool:
        is_full = self._seen == self._most
        if isinstance(write, AddEvent):
            event = decode_event(write.row.raw, write.row.seq)
            if not is_full and is_seen(event):
                self._seen += 1
            return not is_full
        return not (is_full and isinstance(write, PutTurn))


def stored_events(url: str, key: SessionKey, after_seq: int) -> list[Event]:
    """The events of a session that users see which a database has, after some: whichever process has stored them."""
    store = SqlSessionStore(url)
    store.open()
    try:
        events = [decode_event(raw, seq) for seq, raw in store.events(key, after_seq=after_seq)]
    finally:
        store.close()
    return [event for event in events if is_seen(event)]


def is_seen(event: Event) -> bool:
    """True for an event that the cases show: of agents and nodes, and no note."""
    is_note = event.actions.agent_state is not None or (event.node_info is not None and event.node_info.is_note)
    return event.author != USER and not is_note
