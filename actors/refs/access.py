"""Artifacts of one session and memory of one user, as tools and plugins reach them through their context."""

from __future__ import annotations

import asyncio

from actors.interfaces.stores import ArtifactStore
from actors.messages import protocol as p
from actors.messages.content import Part
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
from actors.rules.checks.ids import checked_artifact_name


class SessionArtifacts:
    """The artifacts of one session. The store blocks, so it works in a thread."""

    def __init__(self, store: ArtifactStore, key: SessionKey) -> None:
        self._store = store
        self._key = key

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return await asyncio.to_thread(self._store.save, self._key, checked_artifact_name(filename), part)

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none."""
        return await asyncio.to_thread(self._store.load, self._key, checked_artifact_name(filename), version)

    async def keys(self) -> list[str]:
        """The names of all artifacts that the session sees, sorted."""
        return await asyncio.to_thread(self._store.keys, self._key)


class UserMemory:
    """What is remembered of a session's user. The Session actor has it: an agent may live on another machine."""

    def __init__(self, session: SessionRef, key: SessionKey) -> None:
        self._session = session
        self._key = key

    async def search(self, query: str) -> list[MemoryEntry]:
        """What has a word in common with the query, the best first, at most 10. Raises NoMemoryError or StoreError."""
        return await self._session.search_memory(p.SearchMemory(app=self._key.app, user=self._key.user, query=query))
