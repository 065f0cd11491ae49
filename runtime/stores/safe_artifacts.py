"""An artifact store whose failures are told in this project's errors, whatever raises them below."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeVar

from actors.errors import ArtifactError, RaygroveError, StoreError
from actors.interfaces.stores import ArtifactStore
from actors.messages.content import Part
from actors.messages.session import SessionKey

T = TypeVar("T")


class SafeArtifactStore:
    """Passes everything on to another store; what that raises of other kinds becomes an ArtifactError that tells of it.

    A file system, a cloud's client and a store of the user's own each have errors of their own, which would not survive
    the way from one actor to another.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises ArtifactError."""
        return _told(filename, "it could not be saved", lambda: self._store.save(key, filename, part))

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none. Raises ArtifactError, and TypeError for no number."""
        if version is not None:
            # The caller's mistake, and not the store's.
            version = operator.index(version)
        return _told(filename, "it could not be loaded", lambda: self._store.load(key, filename, version))

    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts that the session sees, sorted. Raises StoreError."""
        try:
            return self._store.keys(key)
        except RaygroveError:
            raise
        except Exception as error:
            # A store may be anybody's.
            raise StoreError(f"the artifacts of session {key.session!r} cannot be listed: {_of(error)}") from error

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first. Raises ArtifactError."""
        return _told(filename, "its versions cannot be listed", lambda: self._store.versions(key, filename))

    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions. A missing one is no error. Raises ArtifactError."""
        _told(filename, "it could not be deleted", lambda: self._store.delete(key, filename))


def _told(filename: str, what: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except RaygroveError:
        raise
    except Exception as error:
        # A store may be anybody's.
        raise ArtifactError(filename, f"{what}: {_of(error)}") from error


def _of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
