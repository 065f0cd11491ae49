"""What features write to a session store, and read from it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.interfaces.stores import Write
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.llm.recorded import PackedPart
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
