"""The artifacts service: `rt.artifacts` and `rt.aio.artifacts` have the same methods."""

from __future__ import annotations

import asyncio
from functools import cached_property

from actors.interfaces.stores import ArtifactStore
from actors.messages.content import Part
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_artifact_name, checked_key
from runtime.driver.engine_client import EngineClient
from runtime.engine.store_urls import open_artifact_store


class ArtifactsService:
    """Artifacts of the app's sessions: `rt.artifacts`. All sessions of a user share the names that begin with `user:`."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    @cached_property
    def _store(self) -> ArtifactStore:
        return open_artifact_store(self._client.artifact_store)

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_key(self._client.app_name, user_id, session_id)

    def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return self._store.save(self._key(user_id, session_id), checked_artifact_name(filename), part)

    def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """Load a version, by default the latest; None when there is none."""
        return self._store.load(self._key(user_id, session_id), checked_artifact_name(filename), version)

    def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """List the names of all artifacts that the session sees, sorted."""
        return self._store.keys(self._key(user_id, session_id))

    def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """List all versions of an artifact, oldest first."""
        return self._store.versions(self._key(user_id, session_id), checked_artifact_name(filename))

    def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Delete an artifact with all its versions; a missing one is no error."""
        self._store.delete(self._key(user_id, session_id), checked_artifact_name(filename))


class AsyncArtifactsService:
    """Artifacts for callers on an event loop: `rt.aio.artifacts`. See ArtifactsService."""

    def __init__(self, sync: ArtifactsService) -> None:
        self._sync = sync

    async def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0."""
        return await asyncio.to_thread(self._sync.save, user_id, session_id, filename, part)

    async def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """Load a version, by default the latest; None when there is none."""
        return await asyncio.to_thread(self._sync.load, user_id, session_id, filename, version)

    async def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """List the names of all artifacts that the session sees, sorted."""
        return await asyncio.to_thread(self._sync.list_keys, user_id, session_id)

    async def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """List all versions of an artifact, oldest first."""
        return await asyncio.to_thread(self._sync.list_versions, user_id, session_id, filename)

    async def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Delete an artifact with all its versions."""
        await asyncio.to_thread(self._sync.delete, user_id, session_id, filename)
