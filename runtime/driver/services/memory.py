"""Memory, for the driver: the same names sync (`rt.memory`) and async (`rt.aio.memory`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages import protocol as p
from actors.messages.memory import MemoryEntry
from actors.rules.checks.ids import checked_id, checked_key

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime


class _Memory:
    """The requests to the Session actor, as coroutines for the driver's loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def _add(self, user_id: str, session_id: str) -> None:
        key = checked_key(self._runtime.app_name, user_id, session_id)
        await self._runtime.session.remember(p.RememberSession(key=key))

    async def _search(self, user_id: str, query: str) -> list[MemoryEntry]:
        user = checked_id("user id", user_id)
        return await self._runtime.session.search_memory(p.SearchMemory(app=self._runtime.app_name, user=user, query=query))

    async def _delete(self, user_id: str, session_id: str) -> None:
        key = checked_key(self._runtime.app_name, user_id, session_id)
        await self._runtime.session.forget(p.ForgetSession(key=key))


class MemoryService(_Memory):
    """What is remembered of the app's users, beyond the sessions it was said in: `rt.memory`."""

    def add_session(self, user_id: str, session_id: str) -> None:
        """Remember what was said in a session so far, in place of what was remembered of it before.

        Raises:
            SessionNotFoundError: there is no such session.
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store could not do it.
        """
        self._runtime.call(self._add(user_id, session_id))

    def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """What is remembered of a user that has a word in common with the query, the best first, at most 10.

        Raises:
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store could not do it.
        """
        return self._runtime.call(self._search(user_id, query))

    def delete_session(self, user_id: str, session_id: str) -> None:
        """Forget what is remembered of a session, whether or not the session is still there; its log stays.

        Raises:
            NoMemoryError: the Runtime was given `memory_store=None`.
            StoreError: the store could not do it.
        """
        self._runtime.call(self._delete(user_id, session_id))


class AsyncMemoryService(_Memory):
    """Memory for callers on an event loop: `rt.aio.memory`. See MemoryService."""

    async def add_session(self, user_id: str, session_id: str) -> None:
        """Remember what was said in a session so far."""
        await self._runtime.call_async(self._add(user_id, session_id))

    async def search(self, user_id: str, query: str) -> list[MemoryEntry]:
        """What is remembered of a user that has to do with the query."""
        return await self._runtime.call_async(self._search(user_id, query))

    async def delete_session(self, user_id: str, session_id: str) -> None:
        """Forget what is remembered of a session."""
        await self._runtime.call_async(self._delete(user_id, session_id))
