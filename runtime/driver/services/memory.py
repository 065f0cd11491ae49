"""The memory service: `rt.memory` and `rt.aio.memory`."""

from __future__ import annotations

from actors.messages import protocol as p
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.rules.checks.arguments import checked_text
from actors.rules.checks.ids import checked_known_id, checked_known_key
from runtime.driver.waits import M, RuntimeService, waits


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
        await self._client.session.remember(p.RememberSession(key=self._key(user_id, session_id)))

    @waits
    async def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """Find entries of a user that share a word with the query: at most 10, the best first.

        Raises:
            RequestError: the query is no text.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        user, query = checked_known_id("user id", user_id), checked_text("query", query)
        return await self._client.session.search_memory(p.SearchMemory(app=self._client.app_name, user=user, query=query))

    @waits
    async def delete_session(self, user_id: str, session_id: str) -> None:
        """Delete the entries of a session, which may have been deleted itself; its log stays.

        Raises:
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        await self._client.session.forget_session(p.ForgetSession(key=self._key(user_id, session_id)))

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)
