"""The stores of sessions, memory and artifacts: base classes, implemented under `runtime.stores`; rows and writes of sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from actors.errors import StoreError
from actors.messages.content import Part
from actors.messages.json_types import JsonObject
from actors.messages.session import MemoryEntry, SessionKey, SessionPlace
from actors.rules.checks.state import USER


def lacking(store: object, what: str, method: str) -> StoreError:
    """The error of a store whose class does not override a method.

    Args:
        what: the consequence, as "keeps no batches".
    """
    return StoreError(f"{type(store).__name__} {what}: it has no method {method!r} of its own")


class StoreClaims:
    """The claims of a store: a Session actor that was replaced, and lives on, can write nothing more.

    A store that overrides none of them has one writer, and is not fenced. All methods raise StoreUnavailableError and StoreError,
    as those of LogStore do.
    """

    @property
    def takes_many_writers(self) -> bool:
        """True if several Session actors may write to the store, each by a copy of its own and other sessions.

        The copies are made before `open`. The state of users and of the app is shared: its changes are merged key by key.
        """
        return False

    def claim(self, writer: str) -> None:
        """Become the only writer of that name. Called after the first `open`, and before anything is read.

        From now on `commit` of every other store that has claimed the same name raises WriterReplacedError. A commit of theirs
        that was under way is done when this returns, or never.

        After a fail-over to an older replica, commits of this writer may be gone. Then `commit` raises StoreRevertedError until
        `claim` is called again, which accepts the store as it is.

        Raises:
            StoreInUseError: another deployment of the app owns the store, and lives.
        """

    def give_up_claim(self) -> None:
        """End the claim, so that the next writer of that name need not replace this one."""

    @property
    def renew_s(self) -> float | None:
        """The seconds after which a claim has to be renewed, each time; None: never."""
        return None

    def renew_claim(self) -> None:
        """Renew the claim.

        Raises:
            WriterReplacedError: another store has claimed the name.
            StoreRevertedError: commits are gone: see `claim`.
        """
        raise lacking(self, "has no claims", "renew_claim")


class LogStore(StoreClaims, ABC):
    """Stores the logs and states of sessions. Its methods block; the Session actor calls them from one thread, one at a time.

    Every method raises StoreUnavailableError when the store is away, locked or full, and may work later. The Session actor then
    calls it again, and its callers wait, until the store has been away for too long.

    It has what conversations need. A store of one's own inherits from `SessionStore`, which features have their parts in.
    """

    @abstractmethod
    def open(self) -> None:
        """Connect, and create or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: a newer version has made the tables.
            StoreError: the store cannot be reached.
        """

    @abstractmethod
    def commit(self, writes: Sequence[Write]) -> None:
        """Do all writes in order, in one transaction. They are on disk when it returns.

        Features have writes of their own: see `SessionStore`.

        Raises:
            SessionExistsError: a session to create exists already.
            StoreConflictError: an event's position in its log is taken, so another deployment writes the session.
            WriterReplacedError, StoreRevertedError: see `claim`. None of the writes is stored.
            TooLargeError: a state that several Session actors write would exceed its limit. None of the writes is stored.
            StoreUnavailableError: the store is away, locked or full. None of the writes is stored; or all of them are, if the
                connection was lost at the end.
            StoreError: the store failed, or keeps no such data. None of the writes is stored.
        """

    @abstractmethod
    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None when there is none. The cost does not grow with the length of the log."""

    @abstractmethod
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

    @abstractmethod
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

    @abstractmethod
    def undos(self, key: SessionKey, first_seq: int) -> list[tuple[int, bytes]]:
        """The `undo` of every event from `first_seq` on that has one, visible or not, as (seq, undo), newest first."""

    @abstractmethod
    def state(self, app: str, user: str) -> tuple[JsonObject, JsonObject]:
        """The app's state and the user's state, by keys without their prefix."""

    def changed_states(self, app: str, known: Mapping[str, int]) -> Mapping[str, VersionedState]:
        """The states of an app and its users whose versions are not the known ones, by user; that of the app by "".

        A store without versions returns all of them.

        Args:
            known: versions by user; -1 where none is known.
        """
        found = {user: self.state(app, user) for user in known}
        return {user: VersionedState(0, of_user if user else of_app) for user, (of_app, of_user) in found.items()}

    def may_exist(self, keys: Sequence[SessionKey]) -> Collection[SessionKey]:
        """The sessions, of those given, that may exist. The others do not."""
        return keys

    @abstractmethod
    def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn; None when there is none, or when its user event was rewound."""

    @abstractmethod
    def turns(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """The turns that are asked for, without those whose user event was rewound.

        They are in descending order of `begun_s`, then of their ids. The cost must not grow with the number of older turns.
        `last_seq` of a running turn is the position of the newest event in its session.
        """

    @abstractmethod
    def count_turns(self, app: str, status: Literal["running", "paused"]) -> int:
        """Count the turns of the app that have a status, without those whose user event was rewound.

        The cost may grow with the turns of all apps that have this status, and with no others.
        """

    @abstractmethod
    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """All turns of the app that have not ended."""

    @abstractmethod
    def running_turn(self, key: SessionKey) -> TurnRow | None:
        """The turn of the session that has not ended, or None."""

    @abstractmethod
    def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The distinct authors of the visible events before a position, the most recent first."""

    @abstractmethod
    def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The position and the turn of the visible event with that id, or None."""

    @abstractmethod
    def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        """The newest visible call with that id, or None."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections and files."""


class MemoryStore(ABC):
    """Stores what is remembered of users. Its methods block; the Session actor calls them from one thread, one at a time.

    StoreUnavailableError and `takes_many_writers` mean the same as for a LogStore.
    """

    @property
    def takes_many_writers(self) -> bool:
        """True for a store that several Session actors may write."""
        return False

    @abstractmethod
    def open(self) -> None:
        """Connect, and create or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: a newer version has made the tables.
            StoreError: the store cannot be reached.
        """

    @abstractmethod
    def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Store the entries of a session in place of its earlier ones, all or none.

        Raises:
            StoreError: the store failed.
        """

    @abstractmethod
    def search(self, app: str, user: str, query: str, limit: int) -> list[MemoryEntry]:
        """The entries of a user of an app that share a word with the query, the best first, at most `limit`.

        The query is plain text: nothing in it is an operator, and a query without words finds nothing.

        Raises:
            StoreError: the store failed.
        """

    @abstractmethod
    def delete_session(self, key: SessionKey) -> None:
        """Remove all entries of a session; that it has none is no error.

        Raises:
            StoreError: the store failed.
        """

    @abstractmethod
    def delete_user(self, app: str, user: str) -> int:
        """Remove all entries of a user of an app, those of deleted sessions too, and return how many there were.

        Raises:
            StoreError: the store failed.
        """

    def users(self, app: str, after: str, limit: int) -> list[str]:
        """The users of an app that have entries, by name, at most `limit`, those after one; "" is before all.

        Raises:
            StoreError: the store failed, or has no such method of its own, and so cannot be one of several.
        """
        raise lacking(self, "cannot be one of several memory stores", "users")

    def remembered(self, app: str, user: str, after: str, limit: int) -> Sequence[tuple[str, Sequence[MemoryEntry]]]:
        """The entries of a user by session, in the order of these, of at most `limit` sessions after one; "" is before all.

        Raises:
            StoreError: the store failed, or has no such method of its own, and so users cannot be moved.
        """
        raise lacking(self, "cannot move users", "remembered")

    @abstractmethod
    def close(self) -> None:
        """Close all connections and files."""


class ArtifactStore(ABC):
    """Stores artifacts. Its methods block. Artifacts whose names begin with `user:` are shared by all sessions of a user.

    A method may raise anything; its caller turns every error into an ArtifactError.
    """

    @abstractmethod
    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0.

        Raises:
            ArtifactError: the name would leave its folder, or the part has neither inline data nor text.
        """

    @abstractmethod
    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The artifact in that version, by default the latest; None when there is none."""

    @abstractmethod
    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts of the session and of those shared by the user's sessions, sorted."""

    @abstractmethod
    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first."""

    @abstractmethod
    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions; that there is none is no error."""

    def delete_session(self, key: SessionKey) -> int:
        """Remove all artifacts of a session but those that the user's sessions share, and return how many there were."""
        return self._delete_each(key, [name for name in self.keys(key) if not name.startswith(USER)])

    def delete_user(self, app: str, user: str, sessions: Sequence[str]) -> int:
        """Remove all artifacts of a user of an app, and return how many there were.

        A store that does not override this does not find artifacts of sessions that were deleted before.

        Args:
            sessions: the ids of the user's sessions.
        """
        keys = [SessionKey(app, user, session) for session in sessions]
        return sum(self._delete_each(key, self.keys(key)) for key in keys)

    def _delete_each(self, key: SessionKey, names: Sequence[str]) -> int:
        for name in names:
            self.delete(key, name)
        return len(names)


class EventHead(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an event that a store needs outside of its bytes.

    Attributes:
        id: the event's.
        invocation_id: the turn's.
        author: the agent or `user`; with an `@` in front where an agent speaks as a tool.
        timestamp: seconds since the epoch.
    """

    id: str
    invocation_id: str
    author: str
    timestamp: float


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a log as it is stored.

    Attributes:
        seq: its position in the log, from 1.
        head: the fields that the store needs.
        raw: the event as its author encoded it.
        calls: ids of the function calls in it.
        undo: the session state that it overwrote, encoded; b"" when it overwrote none. `SessionStore.undos` returns it.
    """

    seq: int
    head: EventHead
    raw: bytes
    calls: tuple[str, ...] = ()
    undo: bytes = b""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one invocation.

    Attributes:
        invocation_id: the turn.
        status: running, paused, finished, failed or cancelled.
        epoch: raised whenever the turn is resumed; writers with an older epoch are refused.
        first_seq: position of the user event that began the turn.
        opened_seq: position of the user event that opened it last; greater than `first_seq` after a pause.
        agent: the agent selected when it was opened last.
        outcome: how it ended, encoded; b"" while it runs.
        temp: what it needs to be resumed, including `temp:` state, encoded; b"" when there is none or it has ended.
        last_seq: position of its newest event when it was stored last.
        begun_s: when it began, in seconds since the epoch; it does not change while the turn goes on.
        ended_s: when it ended or was paused, in seconds since the epoch; 0 while it runs.
        usage: what its events have used, packed: see `rules.accounting`; b"" while it runs, and where only its events
            say that.
        version: of the tree, by which it runs; "" where that is not known.
    """

    invocation_id: str
    status: str
    epoch: int
    first_seq: int
    opened_seq: int
    agent: str = ""
    outcome: bytes = b""
    temp: bytes = b""
    last_seq: int = 0
    begun_s: float = 0.0
    ended_s: float = 0.0
    usage: bytes = b""
    version: str = ""

    def again(self) -> TurnRow:
        """The record when the turn goes on, in another epoch, after it has ended or was paused."""
        return msgspec.structs.replace(self, status="running", epoch=self.epoch + 1, agent="", outcome=b"", ended_s=0.0)


class TurnFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns to list, newest first.

    Attributes:
        app: the app.
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        status: in that stored state only; "": in any.
        limit: at most so many.
        before: only turns after this one in the list, by its `begun_s` and invocation id.
    """

    app: str
    user: str | None = None
    session: str | None = None
    status: str = ""
    limit: int = 100
    before: tuple[float, str] | None = None

    def concerns(self, key: SessionKey) -> bool:
        """True for a session whose turns it may want."""
        return key.app == self.app and self.user in (None, key.user) and self.session in (None, key.session)


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A function call: its position in the log, the agent that made it, and the turn."""

    call_id: str
    seq: int
    author: str
    invocation_id: str


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a Session actor needs to load a session without reading its log.

    Attributes:
        key: the session.
        head_seq: position of the newest event; 0 for an empty log.
        rewinds: number of times that the log was rewound.
        authors: the agents that have visible events, the most recent first, without those that have only spoken as tools. Each
            with the position of one of its events, after which no other agent has spoken before its last one.
        state: the session's own state (plain keys), value by key.
        created_s: time of creation, in seconds since the epoch.
        updated_s: time of the last change, in seconds since the epoch.
    """

    key: SessionKey
    head_seq: int
    rewinds: int
    authors: tuple[tuple[str, int], ...]
    state: JsonObject
    created_s: float
    updated_s: float


class VersionedState(NamedTuple):
    """The state of an app or of a user, values by key without prefix, and its version.

    Every commit that changes the state gives it another version, one that it never had. A state that was never written has 0.
    """

    version: int
    values: JsonObject


class Write(msgspec.Struct, frozen=True):
    """A change of a store, one of a transaction: of a session, a user, or an app."""

    key: SessionKey


class CreateSession(Write, frozen=True):
    """Write: create a session."""

    key: SessionKey
    created_s: float


class AddEvent(Write, frozen=True):
    """Write: append the next event of a log.

    Attributes:
        takes_floor: its author is not known to be the agent that has spoken last. False spares the store to note it again.
    """

    key: SessionKey
    row: EventRow
    takes_floor: bool = True


class HideEvents(Write, frozen=True):
    """Write: hide the events from `first_seq` to `last_seq`, both included, for a rewind; count one more rewind.

    Model calls that were stored with these events are deleted.
    """

    key: SessionKey
    first_seq: int
    last_seq: int


class PutState(Write, frozen=True):
    """Write: set keys of one scope to `values`, and remove keys.

    The key says the scope: the session's own state with all three fields set, the user's with `session` "", the app's with
    `user` and `session` "".
    """

    key: SessionKey
    values: JsonObject = {}
    removed: tuple[str, ...] = ()


class PutTurn(Write, frozen=True):
    """Write: create or replace the record of a turn.

    Attributes:
        updated_s: when the session was written to last, in seconds since the epoch.
        changes_time: the session is not known to have that time. False spares the store to write it again.
    """

    key: SessionKey
    row: TurnRow
    updated_s: float
    changes_time: bool = True


class RemoveSession(Write, frozen=True):
    """Write: remove a session with its log, its turns and its own state. App and user state stay."""

    key: SessionKey
