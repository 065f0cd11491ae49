"""The artifacts and the log of a session, for the code of agents, tools and plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from actors.errors import RequestError
from actors.interfaces.stores import ArtifactStore
from actors.messages.content import Part
from actors.messages.event import Event
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_artifact_name


class SessionArtifacts:
    """Implements `ArtifactAccess`. The store blocks, so it is called in a thread."""

    def __init__(self, store: ArtifactStore, key: SessionKey) -> None:
        self._store = store
        self._key = key

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return await asyncio.to_thread(self._store.save, self._key, checked_artifact_name(filename), part)

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """Return the part of a version, or of the latest one; None if there is none."""
        return await asyncio.to_thread(self._store.load, self._key, checked_artifact_name(filename), version)

    async def keys(self) -> list[str]:
        """Return the names of all artifacts that the session sees, sorted."""
        return await asyncio.to_thread(self._store.keys, self._key)


class RemoteLog:
    """Implements `LogAccess`.

    Args:
        read: reads its events, on the event loop that is running now.
    """

    def __init__(self, key: SessionKey, read: Callable[[], Coroutine[Any, Any, Sequence[Event]]]) -> None:
        self.key = key
        self._read = read
        self._loop = asyncio.get_running_loop()

    async def read(self) -> Sequence[Event]:
        """Return the events that are stored by now, oldest first. Raises StoreError."""
        return await self._read()

    def read_in_thread(self) -> Sequence[Event]:
        """Return the same in a thread, which may have a loop. Raises RequestError on this loop, which would wait for itself."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self._loop:
            return asyncio.run_coroutine_threadsafe(self._read(), self._loop).result()
        raise RequestError("async code reads the events of a session first: await context.session.read_events()")
