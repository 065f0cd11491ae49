"""The artifacts service: `rt.artifacts` and `rt.aio.artifacts` have the same methods."""

from __future__ import annotations

import asyncio

from actors.errors.calls import explains_all_wrong_calls
from actors.interfaces.stores import ArtifactStore
from actors.messages.content import Part
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_artifact_name, checked_key, checked_known_key
from runtime.driver.engine_client import EngineClient
from runtime.engine.store_urls import open_artifact_store
from runtime.stores.safe_artifacts import SafeArtifactStore


@explains_all_wrong_calls
class ArtifactsService:
    """Artifacts of the app's sessions: `rt.artifacts`. All sessions of a user share the names that begin with `user:`."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._opened: tuple[str | ArtifactStore, SafeArtifactStore] | None = None

    @property
    def store(self) -> SafeArtifactStore:
        """The store itself. Raises RuntimeClosedError before a deployment is joined, which alone knows it, and in a fork."""
        self._client.check_process()
        named = self._client.artifact_store
        # Another deployment may have been joined since, with another store.
        if self._opened is None or self._opened[0] != named:
            self._opened = named, open_artifact_store(named)
        return self._opened[1]

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)

    def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return self.store.save(checked_key(self._client.app_name, user_id, session_id), checked_artifact_name(filename), part)

    def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """Load a version, by default the latest; None when there is none."""
        return self.store.load(self._key(user_id, session_id), checked_artifact_name(filename), version)

    def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """List the names of all artifacts that the session sees, sorted."""
        return self.store.keys(self._key(user_id, session_id))

    def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """List all versions of an artifact, oldest first."""
        return self.store.versions(self._key(user_id, session_id), checked_artifact_name(filename))

    def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Delete an artifact with all its versions; a missing one is no error."""
        self.store.delete(self._key(user_id, session_id), checked_artifact_name(filename))

    def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete all artifacts of a session but those that the user's sessions share, and return how many there were."""
        return self.store.delete_session(self._key(user_id, session_id))


@explains_all_wrong_calls
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

    async def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete all artifacts of a session, and return how many there were."""
        return await asyncio.to_thread(self._sync.delete_session, user_id, session_id)
