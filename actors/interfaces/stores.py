"""Where sessions, memory and artifacts last: three protocols, implemented under `runtime.stores`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from actors.interfaces.records import CallRow, SessionRow, TurnRow, Write
from actors.messages.content import Part
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey


class SessionStore(Protocol):
    """Where logs last. Its methods block; the Session actor calls them from one thread, one at a time.

    All of them raise StoreUnavailableError when the store cannot do it now and may be able to later: it is away, locked or
    full. Then they are called again, so that whoever asked need not know, until the store has been away for too long.

    A store that has an attribute `takes_many_writers` that is true may serve several Session actors: each has a copy of it, made
    before it was opened, and writes other sessions. What they share, the state of users and of the app, is merged key by key.
    """

    def open(self) -> None:
        """Connect, and make or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: the tables were made by a newer version.
            StoreError: the store cannot be reached.
        """
        ...

    def commit(self, writes: Sequence[Write]) -> None:
        """Do all the writes in order, in one transaction; when it returns they are on disk.

        Raises:
            SessionExistsError: a session to create is there already.
            StoreConflictError: an event's place in its log is taken: somebody else writes the session.
            StoreUnavailableError: the store cannot do it now. Nothing of `writes` is stored then, or all of it, when
                the store was lost on the way.
            StoreError: the store cannot do it. Nothing of `writes` is stored then.
        """
        ...

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None. Its cost does not grow with the length of the log."""
        ...

    def sessions(self, app: str, user: str | None) -> list[SessionRow]:
        """All sessions of a user, or of all users of the app with None, the one updated last first; `authors` is left empty."""
        ...

    def events(
        self, key: SessionKey, *, after_seq: int = 0, limit: int | None = None, after_s: float | None = None, newest: bool = False
    ) -> list[tuple[int, bytes]]:
        """Visible events as (seq, bytes), oldest first: those behind `after_seq` and not older than `after_s`; of
        them the first `limit`, or with `newest` the last `limit`."""
        ...

    def undos(self, key: SessionKey, first_seq: int) -> list[tuple[int, bytes]]:
        """The `undo` of every event from `first_seq` on that has one, visible or not, newest first, as (seq, undo)."""
        ...

    def state(self, app: str, user: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The app's state and the user's, value by key without prefix."""
        ...

    def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn, or None. A turn whose user event was rewound is not found."""
        ...

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """All turns of the app that have not ended."""
        ...

    def running_turn(self, key: SessionKey) -> TurnRow | None:
        """The turn of the session that has not ended, or None."""
        ...

    def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The distinct authors of the visible events before a place, the most recent first."""
        ...

    def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The place and the invocation id of the visible event with that id, or None."""
        ...

    def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        """The newest visible call with that id, or None."""
        ...

    def close(self) -> None:
        """Let go of every connection and file."""
        ...


class MemoryStore(Protocol):
    """Where memory lasts. Its methods block; the Session actor calls them from one thread, one at a time.

    As those of a SessionStore they raise StoreUnavailableError for what may pass by itself, and are called again then. With
    `takes_many_writers` it may serve several Session actors, as there.
    """

    def open(self) -> None:
        """Connect, and make or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: the tables were made by a newer version.
            StoreError: the store cannot be reached.
        """
        ...

    def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Keep the entries of a session in place of those kept before, all or none.

        Raises:
            StoreError: the store could not do it.
        """
        ...

    def search(self, app: str, user: str, query: str, limit: int) -> list[MemoryEntry]:
        """The entries of a user of an app that have a word in common with the query, the best first, at most `limit`.

        The query is what a person types: nothing in it is an operator, and one without words finds nothing.

        Raises:
            StoreError: the store could not do it.
        """
        ...

    def delete_session(self, key: SessionKey) -> None:
        """Keep nothing of a session. A missing one is no error.

        Raises:
            StoreError: the store could not do it.
        """
        ...

    def close(self) -> None:
        """Let go of every connection and file."""
        ...


class ArtifactStore(Protocol):
    """Where artifacts last. Its methods block; names in folders of `user:` are shared by a user's sessions.

    They may raise anything when the store cannot do what is asked; who asked is told with an ArtifactError.
    """

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0.

        Raises:
            ArtifactError: the name would leave its folder, or the part has neither inline data nor text.
        """
        ...

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none."""
        ...

    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts that the session sees, sorted."""
        ...

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first."""
        ...

    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions. A missing one is no error."""
        ...
