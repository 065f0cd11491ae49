"""The memory of a user, for the code of agents, tools and plugins."""

from __future__ import annotations

from actors.errors import RequestError
from actors.layers.memory.messages import RememberSession, SearchMemory
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.rules.checks.ids import printable


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
