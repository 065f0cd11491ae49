"""An artifact store that raises errors of this project only."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from actors.errors import ArtifactError, RaygroveError, StoreError
from actors.interfaces.stores import ArtifactStore
from actors.messages.content import Part
from actors.messages.session import SessionKey


class SafeArtifactStore(ArtifactStore):
    """Implements `ArtifactStore` on top of another store, and turns its exceptions of other classes into an ArtifactError.

    File systems, cloud clients and users' stores have exceptions of their own, which may not survive pickling between actors.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises ArtifactError."""
        with _guarded("it could not be saved", filename):
            return self._store.save(key, filename, part)

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The part of a version, or of the latest; None when there is none.

        Raises:
            ArtifactError: the store failed.
            TypeError: the version is no integer.
        """
        if version is not None:
            # Outside of the guard, since it is the caller's mistake and not the store's.
            version = operator.index(version)
        with _guarded("it could not be loaded", filename):
            return self._store.load(key, filename, version)

    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts that a session sees, sorted. Raises StoreError."""
        with _guarded(f"the artifacts of session {key.session!r} cannot be listed"):
            return self._store.keys(key)

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first. Raises ArtifactError."""
        with _guarded("its versions cannot be listed", filename):
            return self._store.versions(key, filename)

    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions. A missing one is no error. Raises ArtifactError."""
        with _guarded("it could not be deleted", filename):
            self._store.delete(key, filename)

    def delete_session(self, key: SessionKey) -> int:
        """Remove all artifacts of a session, and return how many there were. Raises StoreError."""
        with _guarded(f"the artifacts of session {key.session!r} cannot be deleted"):
            return self._store.delete_session(key)

    def delete_user(self, app: str, user: str, sessions: Sequence[str]) -> int:
        """Remove all artifacts of a user, and return how many there were. Raises StoreError."""
        with _guarded(f"the artifacts of user {user!r} cannot be deleted"):
            return self._store.delete_user(app, user, sessions)


@contextmanager
def _guarded(failed: str, filename: str | None = None) -> Iterator[None]:
    try:
        yield
    except RaygroveError:
        raise
    except Exception as error:
        # Users may bring their own stores, with any exceptions.
        why = f"{failed}: {type(error).__name__}: {error}"
        raise (ArtifactError(filename, why) if filename is not None else StoreError(why)) from error
