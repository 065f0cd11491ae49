"""The memory of an app's users: texts of sessions, kept beyond their logs and found again by words.

The store works in a thread of its own: neither a search nor the storing of a long session keeps a commit waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.actor import Handlers
from actors.errors import NoMemoryError, RequestError
from actors.interfaces.stores import MemoryStore
from actors.messages.event import decode_event
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.session import MemoryEntry, SessionKey
from actors.refs import SessionRef
from actors.rules.checks.ids import printable
from actors.session.service import SessionParts, SessionService
from actors.session.store.store_thread import StoreThread


class RememberSession(Request[Ack], frozen=True, kw_only=True):
    """Put the texts of a session into memory, in place of what memory has of it."""

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey


class ForgetSession(Request[Ack], frozen=True, kw_only=True):
    """Delete a session from memory. Its log stays."""

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey


class MemoriesReply(Message, frozen=True, kw_only=True):
    """The entries found, the best match first."""

    entries: Sequence[MemoryEntry] = ()


class SearchMemory(Request[MemoriesReply], frozen=True, kw_only=True):
    """Search the memory of a user."""

    route = Route.USER
    lane = Lane.READ

    app: str
    user: str
    query: str


class UserMemory:
    """Implements `MemoryAccess`. The Session actor has the memory, because an agent may live on another machine."""

    def __init__(self, session: SessionRef, key: SessionKey) -> None:
        self._session = session
        self._key = key

    async def add_session(self) -> None:
        """Remember what was said in the session so far, in place of earlier. Raises NoMemoryError, StoreError."""
        await self._session.ask(RememberSession(key=self._key))

    async def search(self, query: str) -> list[MemoryEntry]:
        """Return entries that share a word with the query, best match first, at most 10.

        Raises NoMemoryError, StoreError, and RequestError for a query that is no text.
        """
        if not isinstance(query, str):
            raise RequestError(f"query must be a text, not {printable(query)!r}")
        found = await self._session.ask(SearchMemory(app=self._key.app, user=self._key.user, query=query))
        return list(found.entries)


MAX_RESULTS = 10
"""Entries that a search finds at most."""


class Memory(SessionService):
    """Answers RememberSession, ForgetSession and SearchMemory. The store is opened when it is first used.

    When the app has no memory each of these raises NoMemoryError.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._store = store = parts.environment.memory
        self._thread = StoreThread(store, "memory", parts.environment.store_timeout_s) if store is not None else None
        self._logs = parts.logs
        self._reader = parts.reader

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            RememberSession: self.remember,
            ForgetSession: self.forget_session,
            SearchMemory: self.search_memory,
        }

    async def remember(self, message: RememberSession) -> Ack:
        """Store the texts of a session in place of earlier ones. Raises SessionNotFoundError, NoMemoryError, StoreError."""
        store, thread = self._required(message.key.app)
        log = await self._logs.load(message.key)
        generation = ""
        while generation != log.generation:
            # Again if it is rewound meanwhile, or deleted: events read before that may not be visible any more.
            generation = log.generation
            entries = await self._entries(message.key)
            log = await self._logs.load(message.key)
        await thread.call(store.add_session, message.key, entries, writing=True)
        return Ack()

    async def forget_session(self, message: ForgetSession) -> Ack:
        """Delete a session from memory. Raises NoMemoryError, StoreError."""
        store, thread = self._required(message.key.app)
        await thread.call(store.delete_session, message.key, writing=True)
        return Ack()

    async def users(self, app: str, after: str, limit: int) -> list[str]:
        """Users that memory has entries of, by name, those after one. Raises StoreError, also where the store cannot say it."""
        if self._store is None or self._thread is None:
            return []
        return await self._thread.call(self._store.users, app, after, limit)

    async def remembered(self, app: str, user: str, after: str, limit: int) -> Sequence[tuple[str, Sequence[MemoryEntry]]]:
        """The entries of a user by session, those after one. Raises StoreError, also where the store cannot give them."""
        if self._store is None or self._thread is None:
            return []
        return await self._thread.call(self._store.remembered, app, user, after, limit)

    async def take_over(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Keep the entries of a session that come from another memory store. Raises StoreError."""
        if self._store is not None and self._thread is not None:
            await self._thread.call(self._store.add_session, key, entries, writing=True)

    async def search_memory(self, message: SearchMemory) -> MemoriesReply:
        """Find entries of a user, the best match first. Raises NoMemoryError, StoreError."""
        store, thread = self._required(message.app)
        return MemoriesReply(entries=await thread.call(store.search, message.app, message.user, message.query, MAX_RESULTS))

    async def forget_user(self, app: str, user: str) -> int:
        """Delete all that memory has of a user, and return how many entries it were. Raises StoreError."""
        if self._store is None or self._thread is None:
            return 0
        return await self._thread.call(self._store.delete_user, app, user, writing=True)

    async def flush(self) -> None:
        """Open the store if it is not open yet, and wait until what was asked of it before is done. Raises StoreError."""
        if self._thread is not None:
            await self._thread.open()

    async def close(self) -> None:
        """Close the store."""
        if self._thread is not None:
            await self._thread.close()

    async def _entries(self, key: SessionKey) -> list[MemoryEntry]:
        """The entries of a log. Whole events, which may be large beside their text, are held for one page only."""
        entries: list[MemoryEntry] = []
        after_seq = 0
        while page := await self._reader.page(key, after_seq):
            entries += [entry for stored in page if (entry := entry_of(key.session, stored.raw)) is not None]
            after_seq = page[-1].seq
        return entries

    def _required(self, app: str) -> tuple[MemoryStore, StoreThread]:
        """The store and its thread. Raises NoMemoryError."""
        if self._store is None or self._thread is None:
            raise NoMemoryError(app)
        return self._store, self._thread


def entry_of(session_id: str, raw: bytes) -> MemoryEntry | None:
    """The entry of an event; None when it has no text."""
    event = decode_event(raw, 0)
    if not event.text.strip():
        return None
    return MemoryEntry(session_id=session_id, author=event.author, timestamp=event.timestamp, text=event.text)
