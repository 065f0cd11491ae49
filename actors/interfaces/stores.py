"""The stores of sessions, memory and artifacts: three protocols, implemented under `runtime.stores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from actors.interfaces.records import CallRow, SessionRow, TurnFilter, TurnRow, VersionedState, Write
from actors.messages.content import Part
from actors.messages.json_types import JsonObject
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey, SessionPlace


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
            WriterReplacedError, StoreRevertedError: see FencesWriters. None of the writes is stored.
            TooLargeError: a state that several Session actors write would exceed its limit. None of the writes is stored.
            StoreUnavailableError: the store is away, locked or full. None of the writes is stored; or all of them are, if the
                connection was lost at the end.
            StoreError: the store failed. None of the writes is stored.
        """
        ...

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None when there is none. The cost does not grow with the length of the log."""
        ...

    def sessions(
        self, app: str, user: str | None, *, limit: int | None = None, before: SessionPlace | None = None
    ) -> list[SessionRow]:
        """The sessions of a user, with None of all users of the app, the last updated first. `authors` is left empty.

        Of those that were updated at the same time, the one with the last user comes first, then that with the last id.

        Args:
            app, user: of whom.
            limit: at most so many; None is no limit.
            before: only those that come after this place.
        """
        ...

    def events(
        self,
        key: SessionKey,
        *,
        after_seq: int = 0,
        limit: int | None = None,
        after_s: float | None = None,
        newest: bool = False,
        before_seq: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """Visible events as (seq, bytes), oldest first.

        Args:
            key: the session.
            after_seq: only events after this position.
            limit: at most this number of events; None is no limit.
            after_s: only events of this time or later, in seconds since the epoch; None is no limit.
            newest: the last `limit` events instead of the first.
            before_seq: only events before this position; None is no limit.
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

    def turns(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """The turns that are asked for, without those whose user event was rewound.

        They are in descending order of `begun_s`, then of their ids. The cost must not grow with the number of older turns.
        `last_seq` of a running turn is the position of the newest event in its session.
        """
        ...

    def count_turns(self, app: str, status: Literal["running", "paused"]) -> int:
        """Count the turns of the app that have a status, without those whose user event was rewound.

        The cost may grow with the turns of all apps that have this status, and with no others.
        """
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


@runtime_checkable
class FencesWriters(Protocol):
    """What a SessionStore may have besides, so that a process which was replaced, and lives on, writes nothing more."""

    def claim(self, writer: str) -> None:
        """Take a writer's place. Called after the first `open`, and before anything is read.

        From now on `commit` of every other store that has claimed the same place raises WriterReplacedError. What that was
        committing is done when this returns, or never.

        A store that may go back to an older copy of itself, as after a fail-over to a replica that lags, notices that: when
        something is gone that this writer had committed, `commit` raises StoreRevertedError until `claim` is called again, which
        takes the store as it is.

        Raises:
            StoreInUseError: the store is owned by another deployment of the app, which lives.
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...

    def give_up_claim(self) -> None:
        """Leave the place: what was claimed is forgotten.

        Raises:
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class RenewsClaims(FencesWriters, Protocol):
    """A store whose claims run out, so that what is left of a machine that is gone holds nothing up."""

    @property
    def renew_s(self) -> float | None:
        """The seconds after which a claim has to be renewed, each time; None: never."""
        ...

    def renew_claim(self) -> None:
        """Have the claim last for its time again.

        Raises:
            WriterReplacedError: another store has claimed the place.
            StoreRevertedError: the store has gone back to an older copy of itself: see `claim`.
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class ReadsManyStates(Protocol):
    """What a SessionStore may have besides: the states of many users in one go, for lists of sessions."""

    def states(self, app: str, users: Sequence[str]) -> tuple[JsonObject, dict[str, JsonObject]]:
        """The app's state, and those of users that have any, by keys without their prefix.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class ReadsChangedStates(Protocol):
    """What a SessionStore that takes many writers may have besides: versions of the states that they share.

    Without it, Session actors that share a store read these states again for each group of turns that begin.
    """

    def changed_states(self, app: str, known: Mapping[str, int]) -> Mapping[str, VersionedState]:
        """Those states of an app and its users that are not in the version known, by user; that of the app by "".

        Args:
            known: versions by user; -1 where none is known.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class ErasesTraces(Protocol):
    """What a SessionStore may have besides: a way to take what was deleted out of its files, and not only out of its tables."""

    def erase_traces(self) -> None:
        """Erase what was deleted from the files. What others keep open may have to wait for them.

        Raises:
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class ForgetsUsers(Protocol):
    """What a MemoryStore needs besides, so that all data of a user can be deleted."""

    def delete_user(self, app: str, user: str) -> int:
        """Remove all entries of a user of an app, those of deleted sessions too, and return how many there were.

        Raises:
            StoreError: the store failed.
        """
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


@runtime_checkable
class ErasesArtifacts(Protocol):
    """What an ArtifactStore may have besides, so that no artifact has to be named to be deleted."""

    def delete_session(self, key: SessionKey) -> int:
        """Remove all artifacts of a session but those that the user's sessions share, and return how many there were."""
        ...

    def delete_user(self, app: str, user: str, sessions: Sequence[str]) -> int:
        """Remove all artifacts of a user of an app, and return how many there were.

        Args:
            sessions: the ids of the user's sessions. There may be artifacts of sessions that were deleted before.
        """
        ...
