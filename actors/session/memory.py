"""The memory of the app's users: what the Session actor keeps of sessions beyond their logs, and finds again.

The store works in a thread of its own: neither a search nor the remembering of a long session keeps a commit waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import NoMemoryError
from actors.interfaces.stores import MemoryStore
from actors.messages.codec import decode_event
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.session.store.store_thread import StoreThread

MOST_RESULTS = 10
"""Entries that a search finds at most."""


class Memory:
    """A memory store, which is opened when it is first used.

    Args:
        store: None when the app has no memory; every call raises NoMemoryError then.
        timeout_s: how long it may be away: see `StoreThread`.
    """

    def __init__(self, store: MemoryStore | None, timeout_s: float) -> None:
        self._store = store
        self._thread = StoreThread(store, "memory", timeout_s) if store is not None else None

    async def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Remember a session by its entries, and by nothing else. Raises NoMemoryError, StoreError."""
        store, thread = self.require(key.app)
        await thread.call(store.add_session, key, entries, writing=True)

    async def search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        """What is remembered of a user that has to do with the query, the best first. Raises NoMemoryError, StoreError."""
        store, thread = self.require(app)
        return await thread.call(store.search, app, user, query, MOST_RESULTS)

    async def delete_session(self, key: SessionKey) -> None:
        """Forget what is remembered of a session. Raises NoMemoryError, StoreError."""
        store, thread = self.require(key.app)
        await thread.call(store.delete_session, key, writing=True)

    async def close(self) -> None:
        """Let go of the store."""
        if self._thread is not None:
            await self._thread.close()

    def require(self, app: str) -> tuple[MemoryStore, StoreThread]:
        """The store and its thread. Raises NoMemoryError when there is none."""
        if self._store is None or self._thread is None:
            raise NoMemoryError(app)
        return self._store, self._thread


def entry_of(session_id: str, raw: bytes) -> MemoryEntry | None:
    """What is to be remembered of an event; None when it says nothing in words."""
    event = decode_event(raw, 0)
    if not event.text.strip():
        return None
    return MemoryEntry(session_id=session_id, author=event.author, timestamp=event.timestamp, text=event.text)
