"""The memory of the app's users: what the Session actor keeps of sessions beyond their logs, and finds again.

The store works in a thread of its own: neither a search nor the remembering of a long session keeps a commit waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from actors.errors import NoMemoryError
from actors.interfaces.stores import MemoryStore
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.messages.wire import decode_event

MOST_RESULTS = 10
"""Entries that a search finds at most."""

T = TypeVar("T")


class Memory:
    """A memory store, which is opened when it is first used.

    Args:
        store: None when the app has no memory; every call raises NoMemoryError then.
    """

    def __init__(self, store: MemoryStore | None) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._opening = asyncio.Lock()
        self._is_open = False

    async def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Remember a session by its entries, and by nothing else. Raises NoMemoryError, StoreError."""
        store = await self._opened(key.app)
        await self._in_thread(store.add_session, key, entries)

    async def search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        """What is remembered of a user that has to do with the query, the best first. Raises NoMemoryError, StoreError."""
        store = await self._opened(app)
        return await self._in_thread(store.search, app, user, query, MOST_RESULTS)

    async def delete_session(self, key: SessionKey) -> None:
        """Forget what is remembered of a session. Raises NoMemoryError, StoreError."""
        store = await self._opened(key.app)
        await self._in_thread(store.delete_session, key)

    async def close(self) -> None:
        """Let go of the store."""
        if self._store is not None and self._is_open:
            await self._in_thread(self._store.close)
            self._is_open = False

    def require(self, app: str) -> MemoryStore:
        """The store. Raises NoMemoryError when there is none."""
        if self._store is None:
            raise NoMemoryError(app)
        return self._store

    async def _opened(self, app: str) -> MemoryStore:
        store = self.require(app)
        async with self._opening:
            if not self._is_open:
                await self._in_thread(store.open)
                self._is_open = True
        return store

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def entry_of(session_id: str, raw: bytes) -> MemoryEntry | None:
    """What is to be remembered of an event; None when it says nothing in words."""
    event = decode_event(raw, 0)
    if not event.text.strip():
        return None
    return MemoryEntry(session_id=session_id, author=event.author, timestamp=event.timestamp, text=event.text)
