"""The artifacts service: `rt.artifacts` and `rt.aio.artifacts`."""

from __future__ import annotations

from actors.messages.content import Part
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_artifact_name, checked_key, checked_known_key
from runtime.driver.waits import M, RuntimeService, in_thread


class ArtifactsService(RuntimeService[M]):
    """Artifacts of the app's sessions. All sessions of a user share the names that begin with `user:`."""

    @in_thread
    def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        key = checked_key(self._client.app_name, user_id, session_id)
        return self._client.artifacts.save(key, checked_artifact_name(filename), part)

    @in_thread
    def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """Load a version, by default the latest; None when there is none."""
        return self._client.artifacts.load(self._key(user_id, session_id), checked_artifact_name(filename), version)

    @in_thread
    def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """List the names of all artifacts that the session sees, sorted."""
        return self._client.artifacts.keys(self._key(user_id, session_id))

    @in_thread
    def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """List all versions of an artifact, oldest first."""
        return self._client.artifacts.versions(self._key(user_id, session_id), checked_artifact_name(filename))

    @in_thread
    def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Delete an artifact with all its versions; a missing one is no error."""
        self._client.artifacts.delete(self._key(user_id, session_id), checked_artifact_name(filename))

    @in_thread
    def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete all artifacts of a session but those that the user's sessions share, and return how many there were."""
        return self._client.artifacts.delete_session(self._key(user_id, session_id))

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)
