"""Memory of a user's past sessions: `rt.memory` and `rt.aio.memory`, and `/v1/apps/{app}/memory`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.layers.memory import ForgetSession, RememberSession, SearchMemory
from actors.messages.session import MemoryEntry, SessionKey
from actors.rules.checks.ids import checked_known_id, checked_known_key
from runtime.driver.arguments import checked_text
from runtime.driver.operation import AppOperation, Id
from runtime.driver.waits import Awaited, M, RuntimeService, waits


class MemoryService(RuntimeService[M]):
    """Text of past sessions, found again from other sessions of the same user."""

    @waits
    async def add_session(self, user_id: str, session_id: str) -> None:
        """Add what was said in a session so far, in place of what was added of it before.

        Raises:
            SessionNotFoundError: there is no such session.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        await self._client.session.ask(RememberSession(key=self._key(user_id, session_id)))

    @waits
    async def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """Find entries of a user that share a word with the query: at most 10, the best first.

        Raises:
            RequestError: the query is no text.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        user, query = checked_known_id("user id", user_id), checked_text("query", query)
        found = await self._client.session.ask(SearchMemory(app=self._client.app_name, user=user, query=query))
        return list(found.entries)

    @waits
    async def delete_session(self, user_id: str, session_id: str) -> None:
        """Delete the entries of a session, which may have been deleted itself; its log stays.

        Raises:
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        await self._client.session.ask(ForgetSession(key=self._key(user_id, session_id)))

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)


class Remember(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The session whose texts are added to memory."""

    session_id: Id


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words to look for."""

    query: str


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of memory, the best first."""

    entries: Sequence[MemoryEntry]


async def add_to_memory(memory: MemoryService[Awaited], given: Remember, user_id: str) -> None:
    """Add what was said in a session so far to the memory of its user."""
    await memory.add_session(user_id, given.session_id)


async def search_memory(memory: MemoryService[Awaited], given: MemoryQuery, user_id: str) -> MemoryList:
    """Search the memory of a user."""
    return MemoryList(entries=await memory.search(user_id, given.query))


async def forget_session(memory: MemoryService[Awaited], user_id: str, session: str) -> None:
    """Delete the entries of a session from memory; its log stays."""
    await memory.delete_session(user_id, session)


OPERATIONS = [
    AppOperation("POST /v1/apps/{app}/memory", add_to_memory, for_admins=False),
    AppOperation("POST /v1/apps/{app}/memory/search", search_memory, for_admins=False),
    AppOperation("DELETE /v1/apps/{app}/memory/{session}", forget_session, for_admins=False),
]
"""What may be done with memory."""
