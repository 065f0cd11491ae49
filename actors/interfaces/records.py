"""What a session store reads and writes: rows, and the writes that change them."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.messages.session import SessionKey


class EventHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the store must know of an event beside its bytes. `timestamp` is in seconds since the epoch."""

    id: str
    invocation_id: str
    author: str
    timestamp: float


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a log as it is stored.

    Attributes:
        raw: the event as its author encoded it.
        calls: ids of the function calls in it.
        undo: session state it overwrote, encoded; b"" when it overwrote none. `SessionStore.undos` returns it.
    """

    seq: int
    head: EventHead
    raw: bytes
    calls: tuple[str, ...] = ()
    undo: bytes = b""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one invocation.

    Attributes:
        status: running, paused, finished, failed or cancelled.
        epoch: raised whenever the turn is taken up; older writers are refused.
        first_seq: the user event that began the invocation.
        opened_seq: the user event that opened it last; later than `first_seq` after a pause.
        agent: the agent selected when it was opened last.
        outcome: how it ended, encoded; b"" while it runs.
        temp: what it needs to go on, `temp:` state among it, encoded; b"" when there is none or it has ended.
    """

    invocation_id: str
    status: str
    epoch: int
    first_seq: int
    opened_seq: int
    agent: str = ""
    outcome: bytes = b""
    temp: bytes = b""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a function call, and in which turn."""

    call_id: str
    seq: int
    author: str
    invocation_id: str


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a Session actor needs to take a session up, without reading its log.

    Attributes:
        head_seq: the newest event's place, 0 for an empty log.
        rewinds: how often the log has been rewound.
        authors: the distinct authors of visible events, the most recent first, with the place of their last event.
        state: the session's own state (plain keys), value by key.
        created_s, updated_s: seconds since the epoch.
    """

    key: SessionKey
    head_seq: int
    rewinds: int
    authors: tuple[tuple[str, int], ...]
    state: dict[str, Any]
    created_s: float
    updated_s: float


class CreateSession(msgspec.Struct, frozen=True):
    """Write: a new session."""

    key: SessionKey
    created_s: float


class AddEvent(msgspec.Struct, frozen=True):
    """Write: the next event of a log."""

    key: SessionKey
    row: EventRow


class HideEvents(msgspec.Struct, frozen=True):
    """Write: the events of a rewound stretch, both ends included, are not seen any more; `rewinds` is one more."""

    key: SessionKey
    first_seq: int
    last_seq: int


class PutState(msgspec.Struct, frozen=True):
    """Write: keys of one scope, set to `values` or taken away.

    The scope is the session's own with all three fields of the key set, the user's with `session` "", the app's with
    `user` and `session` "".
    """

    key: SessionKey
    values: dict[str, Any] = {}
    removed: tuple[str, ...] = ()


class PutTurn(msgspec.Struct, frozen=True):
    """Write: the record of a turn, as it is now."""

    key: SessionKey
    row: TurnRow
    updated_s: float


class RemoveSession(msgspec.Struct, frozen=True):
    """Write: a session with its log, its turns and its own state is gone. App and user state stay."""

    key: SessionKey


Write = CreateSession | AddEvent | HideEvents | PutState | PutTurn | RemoveSession
