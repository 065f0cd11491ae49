"""The memory service: `rt.memory` and `rt.aio.memory` have the same methods."""

from __future__ import annotations

from actors.errors.calls import explains_all_wrong_calls
from actors.messages import protocol as p
from actors.messages.memory import MemoryEntry
from actors.rules.checks.arguments import checked_text
from actors.rules.checks.ids import checked_known_id, checked_known_key
from runtime.driver.engine_client import EngineClient


@explains_all_wrong_calls
class _Memory:
    """The requests to the Session actor, as coroutines for the portal's loop."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def _add(self, user_id: str, session_id: str) -> None:
        key = checked_known_key(self._client.app_name, user_id, session_id)
        await self._client.session.remember(p.RememberSession(key=key))

    async def _search(self, user_id: str, query: str) -> list[MemoryEntry]:
        user, query = checked_known_id("user id", user_id), checked_text("query", query)
        return await self._client.session.search_memory(p.SearchMemory(app=self._client.app_name, user=user, query=query))

    async def _delete(self, user_id: str, session_id: str) -> None:
        key = checked_known_key(self._client.app_name, user_id, session_id)
        await self._client.session.forget_session(p.ForgetSession(key=key))


@explains_all_wrong_calls
class MemoryService(_Memory):
    """Text of past sessions, found again from other sessions of the same user: `rt.memory`."""

    def add_session(self, user_id: str, session_id: str) -> None:
        """Add what was said in a session so far, in place of what was added of it before.

        Raises:
            SessionNotFoundError: there is no such session.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        self._client.run(self._add(user_id, session_id))

    def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """Find entries of a user that share a word with the query: at most 10, the best first.

        Raises:
            RequestError: the query is no text.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        return self._client.run(self._search(user_id, query))

    def delete_session(self, user_id: str, session_id: str) -> None:
        """Delete the entries of a session, which may have been deleted itself; its log stays.

        Raises:
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store failed.
        """
        self._client.run(self._delete(user_id, session_id))


@explains_all_wrong_calls
class AsyncMemoryService(_Memory):
    """Memory for callers on an event loop: `rt.aio.memory`. See MemoryService."""

    async def add_session(self, user_id: str, session_id: str) -> None:
        """Add what was said in a session so far."""
        await self._client.run_async(self._add(user_id, session_id))

    async def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """Find entries of a user that share a word with the query."""
        return await self._client.run_async(self._search(user_id, query))

    async def delete_session(self, user_id: str, session_id: str) -> None:
        """Delete the entries of a session."""
        await self._client.run_async(self._delete(user_id, session_id))
