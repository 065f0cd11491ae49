"""The rows of a session store, and the writes that change them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey


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
        usage: what its events have used, packed: see `rules.accounting.turn_usage`; b"" while it runs, and where only its events
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
