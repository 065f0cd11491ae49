"""What features write to a session store, and read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.interfaces.stores import Write
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.protocol.log import PackedPart
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, SessionPlace


class OldSession(msgspec.Struct, frozen=True, array_like=True):
    """A session that was not written to for long.

    Attributes:
        key: the session.
        updated_s: when it was written last, in seconds since the epoch.
        events: how many events its log has, rewound ones included.
        turns: how many turns it has.
    """

    key: SessionKey
    updated_s: float
    events: int
    turns: int

    @property
    def place(self) -> SessionPlace:
        """Where it stands among others."""
        return SessionPlace(self.updated_s, self.key.user, self.key.session)


class ModelCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a model call as it is stored.

    Attributes:
        id: of the event that has the response.
        seq: position of the event with which it was stored.
        begun_s: when the call began, in seconds since the epoch.
        raw: the PackedCall, encoded.
    """

    id: str
    invocation_id: str
    seq: int
    begun_s: float
    raw: bytes


class NoteRemoval(Write, frozen=True):
    """Write: note that a session was removed, whose artifacts are still there; a note that is there already stays."""

    key: SessionKey
    session: OldSession


class ForgetRemoval(Write, frozen=True):
    """Write: forget such a note; one that is not there is no error."""

    key: SessionKey


class ArchiveEvents(Write, frozen=True):
    """Write: move the bytes of all events up to `last_seq` into the archive. Every question has the same answer afterwards.

    A session that is not there is no error.
    """

    key: SessionKey
    last_seq: int


class AddSchedule(Write, frozen=True):
    """Write: create a schedule, unless the user has one of its name: that stays as it is, and is no error."""

    key: SessionKey
    row: ScheduleRow


class SetDueTime(Write, frozen=True):
    """Write: give a schedule another due time, and forget why the last one made no turn. One that is gone is no error.

    Attributes:
        key: the session that gets its messages.
        due_s: the due time; None: it has none.
    """

    key: SessionKey
    name: str
    id: str
    due_s: int | None
    paused: bool


class AdvanceSchedule(Write, frozen=True):
    """Write: have a schedule go on from a due time to the next, unless it has done so, or was paused or replaced.

    Without a next due time a schedule is removed; with an `error` it stays, without any.

    Attributes:
        key: the session that gets its messages.
        error: why it has made no turn; "": it has made one.
    """

    key: SessionKey
    time: ScheduledTime
    error: str = ""


class RemoveSchedule(Write, frozen=True):
    """Write: remove a schedule; one that is not there, under its id, is no error."""

    key: SessionKey
    name: str
    id: str


class AddModelCall(Write, frozen=True):
    """Write: add the record of a model call, and parts of its request. What is there already stays as it is."""

    key: SessionKey
    row: ModelCallRow
    parts: Sequence[PackedPart] = ()


class DeleteModelCalls(Write, frozen=True):
    """Write: delete the calls that began before a time, with the parts that no other call has.

    A session that is not there is no error.
    """

    key: SessionKey
    before_s: float


class PutBatch(Write, frozen=True):
    """Write: create or replace what is stored of a batch, and of these items of it.

    A new batch takes the place of the one that began first, where as many are kept as may be.

    Attributes:
        key: its app; the other fields are of no meaning.
    """

    key: SessionKey
    batch: BatchInfo
    items: Sequence[BatchItem] = ()


class ForgetBatches(Write, frozen=True):
    """Write: delete items of batches; without a user also batches, with all of their items. What is not there is no error.

    Attributes:
        key: the app; the other fields are of no meaning.
        user: only items of this user; None: of all users.
        before_s: only what was told of before this time, in seconds since the epoch; None: whenever that was.
    """

    key: SessionKey
    user: str | None = None
    before_s: float | None = None


class StoreSeat(msgspec.Struct, frozen=True, array_like=True):
    """What a store keeps of the list of which it is one.

    Attributes:
        family: the same in all stores of the list, and in no others.
        number: its place in the list, from 0.
        of: how many stores the list has.
    """

    family: str
    number: int
    of: int


class FoundStore(msgspec.Struct, frozen=True, array_like=True):
    """What a Session actor says of its store.

    Attributes:
        name: the store, without a password.
        seat: its place in a list; None: it is in none.
        is_empty: it has nothing of the app; not looked at where it has a seat, or is the only one.
        has_app_state: the app has state in it that all of its users share; as `is_empty`.
    """

    name: str
    seat: StoreSeat | None = None
    is_empty: bool = True
    has_app_state: bool = False


class UserPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a user is who is in another store.

    Attributes:
        store: its number, from 0.
        token: of the move by which the user has left; "": by none, the list has grown; None: a release without tokens wrote it.
    """

    store: int
    token: str | None


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """A user who is being moved to a store, or was to be.

    Attributes:
        token: tells the move from others of the user.
        source: the number of the store in which the user was, from 0.
    """

    user: str
    token: str
    source: int


class UsageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turns to add up, those too that were rewound.

    Attributes:
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        invocation_id: that turn of the session only; "": all of them.
        since_s: only turns that began at this time or later, in seconds since the epoch.
        groups: what to tell them apart by: "user", "day", "version", "turn" or "" for nothing.
    """

    app: str
    user: str | None = None
    session: str | None = None
    invocation_id: str = ""
    since_s: float = 0.0
    groups: str = ""


class UnsummedTurn(NamedTuple):
    """A turn of which only its events say what it has used: one that runs, or has ended otherwise than by its last event.

    Attributes:
        first_seq, last_seq: its events stand from here to there; `last_seq` is 0 while it runs.
        begun_s: when it began, in seconds since the epoch.
        version: of the tree, by which it ran.
    """

    key: SessionKey
    invocation_id: str
    first_seq: int
    last_seq: int
    begun_s: float
    version: str = ""


class UsagePlace(NamedTuple):
    """Where a page of turns ends."""

    begun_s: float
    sid: int
    invocation_id: str


TurnId = tuple[int, str]
"""A turn, by the number that the store has given its session, and its invocation id."""


class TurnName(NamedTuple):
    """A turn, as a report names it."""

    user: str
    session: str
    invocation_id: str
    begun_s: float


class UsagePage(NamedTuple):
    """Some of the turns that a filter wants.

    Attributes:
        turns: what those have used whose sums are stored, packed, by user, by version, by day as `day_of` names it, or all under
            "".
        unsummed: the others.
        next: where the next page begins; None: there are no more.
        ids: of the turns under "", in their order, if the filter wants them by turn.
    """

    turns: Mapping[str, Sequence[bytes]]
    unsummed: Sequence[UnsummedTurn] = ()
    next: UsagePlace | None = None
    ids: Sequence[TurnId] = ()
