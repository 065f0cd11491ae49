"""The stores of sessions, memory and artifacts: three protocols, implemented under `runtime.stores`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.interfaces.records import CallRow, SessionRow, TurnRow, Write
from actors.messages.content import Part
from actors.messages.json_types import JsonObject
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey


class SessionStore(Protocol):
    """Stores the logs and states of sessions. Its methods block; the Session actor calls them from one thread, one at a time.

    Every method raises StoreUnavailableError when the store is away, locked or full, and may work later. The Session actor then
    calls it again, and its callers wait, until the store has been away for too long.

    A store with an attribute `takes_many_writers` that is True may serve several Session actors. Each has its own copy, made
    before `open`, and writes other sessions. The state of users and of the app, which they share, is merged key by key.
    """

    def open(self) -> None:
        """Connect, and create or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: a newer version has made the tables.
            StoreError: the store cannot be reached.
        """
        ...

    def commit(self, writes: Sequence[Write]) -> None:
        """Do all writes in order, in one transaction. They are on disk when it returns.

        Raises:
            SessionExistsError: a session to create exists already.
            StoreConflictError: an event's position in its log is taken, so another deployment writes the session.
            StoreUnavailableError: the store is away, locked or full. None of the writes is stored; or all of them are, if the
                connection was lost at the end.
            StoreError: the store failed. None of the writes is stored.
        """
        ...

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None when there is none. The cost does not grow with the length of the log."""
        ...

    def sessions(self, app: str, user: str | None) -> list[SessionRow]:
        """All sessions of a user, with None of all users of the app, the last updated first. `authors` is left empty."""
        ...

    def events(
        self, key: SessionKey, *, after_seq: int = 0, limit: int | None = None, after_s: float | None = None, newest: bool = False
    ) -> list[tuple[int, bytes]]:
        """Visible events as (seq, bytes), oldest first.

        Args:
            key: the session.
            after_seq: only events after this position.
            limit: at most this number of events; None is no limit.
            after_s: only events of this time or later, in seconds since the epoch; None is no limit.
            newest: the last `limit` events instead of the first.
        """
        ...

    def undos(self, key: SessionKey, first_seq: int) -> list[tuple[int, bytes]]:
        """The `undo` of every event from `first_seq` on that has one, visible or not, as (seq, undo), newest first."""
        ...

    def state(self, app: str, user: str) -> tuple[JsonObject, JsonObject]:
        """The app's state and the user's state, by keys without their prefix."""
        ...

    def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn; None when there is none, or when its user event was rewound."""
        ...

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """All turns of the app that have not ended."""
        ...

    def running_turn(self, key: SessionKey) -> TurnRow | None:
        """The turn of the session that has not ended, or None."""
        ...

    def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The distinct authors of the visible events before a position, the most recent first."""
        ...

    def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The position and the turn of the visible event with that id, or None."""
        ...

    def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        """The newest visible call with that id, or None."""
        ...

    def close(self) -> None:
        """Close all connections and files."""
        ...


class MemoryStore(Protocol):
    """Stores what is remembered of users. Its methods block; the Session actor calls them from one thread, one at a time.

    StoreUnavailableError and `takes_many_writers` mean the same as for a SessionStore.
    """

    def open(self) -> None:
        """Connect, and create or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: a newer version has made the tables.
            StoreError: the store cannot be reached.
        """
        ...

    def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Store the entries of a session in place of its earlier ones, all or none.

        Raises:
            StoreError: the store failed.
        """
        ...

    def search(self, app: str, user: str, query: str, limit: int) -> list[MemoryEntry]:
        """The entries of a user of an app that share a word with the query, the best first, at most `limit`.

        The query is plain text: nothing in it is an operator, and a query without words finds nothing.

        Raises:
            StoreError: the store failed.
        """
        ...

    def delete_session(self, key: SessionKey) -> None:
        """Remove all entries of a session; that it has none is no error.

        Raises:
            StoreError: the store failed.
        """
        ...

    def close(self) -> None:
        """Close all connections and files."""
        ...


class ArtifactStore(Protocol):
    """Stores artifacts. Its methods block. Artifacts whose names begin with `user:` are shared by all sessions of a user.

    A method may raise anything; its caller turns every error into an ArtifactError.
    """

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0.

        Raises:
            ArtifactError: the name would leave its folder, or the part has neither inline data nor text.
        """
        ...

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The artifact in that version, by default the latest; None when there is none."""
        ...

    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts of the session and of those shared by the user's sessions, sorted."""
        ...

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first."""
        ...

    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions; that there is none is no error."""
        ...
