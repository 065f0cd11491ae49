"""The rows that the writes of one commit put into the tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from actors.interfaces.stores import AddEvent, CreateSession, PutState, PutTurn
from actors.layers.stores.records import AddModelCall, AddSchedule, AdvanceSchedule
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.rules.routing.selection import is_selectable
from runtime.stores.sql.statements import Row, Values

EVENT_COLUMNS = ("sid", "seq", "id", "invocation_id", "author", "timestamp", "undo", "raw")
TURN_COLUMNS = (
    "sid",
    "invocation_id",
    "status",
    "epoch",
    "first_seq",
    "opened_seq",
    "agent",
    "outcome",
    "temp",
    "last_seq",
    "begun_s",
    "ended_s",
    "usage",
    "version",
)
UPDATED_COLUMNS = ("sid", "updated_s")

STATUS = TURN_COLUMNS.index("status")
"""Where a turn's status stands among its values."""

Blob = Callable[[bytes], bytes | bytearray]
"""Makes of bytes what a driver takes."""


class CollectedRows:
    """Collects rows by table. Of a turn, and of a key of state, only the last value is kept.

    Args:
        sid_of: the sid of a session that is there. Raises StoreConflictError when it is not.
        blob: makes of the bytes of events, turns and states what the driver takes.

    Attributes:
        created, calls: rows that are new.
        events: the same, each the values of `EVENT_COLUMNS`.
        authors: the positions of agents that have taken the floor, by sid and author.
        model_calls, model_call_parts: rows that are new, or there already.
        turns: records that are new, or take the place of older ones, each the values of `TURN_COLUMNS`, by sid and invocation id.
        updated: when sessions were written to last, by sid.
        own: the state of sessions, by sid and key; None stands for a key that is removed.
        shared: the same of users and apps, by app, user and key.
        schedules: new ones. Those in `schedules_on` go on to their next due times, those in `schedules_over` have none.
    """

    def __init__(self, sid_of: Callable[[SessionKey], int], blob: Blob = bytes) -> None:
        self._sid_of = sid_of
        self._blob = blob
        self.created: list[Row] = []
        self.events: list[Values] = []
        self.authors: dict[tuple[int, str], int] = {}
        self.calls: list[Row] = []
        self.model_calls: list[Row] = []
        self.model_call_parts: list[Row] = []
        self.turns: dict[tuple[int, str], Values] = {}
        self.updated: dict[int, float] = {}
        self.own: dict[tuple[int, str], bytes | bytearray | None] = {}
        self.shared: dict[tuple[str, str, str], bytes | bytearray | None] = {}
        self.schedules: list[Row] = []
        self.schedules_on: list[Row] = []
        self.schedules_over: list[Row] = []

    def create_session(self, write: CreateSession, sid: int) -> None:
        """Add the row of a new session, with the sid that it gets."""
        self.created.append({"sid": sid, **new_session(write)})

    def add_event(self, write: AddEvent) -> None:
        """Add an event's row, and those of its calls and of its author."""
        sid = self._sid_of(write.key)
        row, blob = write.row, self._blob
        head = row.head
        undo = blob(row.undo) if row.undo else None
        self.events.append((sid, row.seq, head.id, head.invocation_id, head.author, head.timestamp, undo, blob(row.raw)))
        if write.takes_floor and is_selectable(head.author):
            self.authors[sid, head.author] = row.seq
        for call_id in dict.fromkeys(row.calls):
            self.calls.append({"sid": sid, "call_id": call_id, "seq": row.seq})

    def add_model_call(self, write: AddModelCall) -> None:
        """Add the row of a model call, and those of parts of its request."""
        sid = self._sid_of(write.key)
        self.model_calls.append({"sid": sid, **msgspec.structs.asdict(write.row)})
        self.model_call_parts += [{"sid": sid, "digest": part.digest, "raw": part.raw} for part in write.parts]

    def put_turn(self, write: PutTurn) -> None:
        """Add a turn's row, and the time of its session if that changes."""
        sid = self._sid_of(write.key)
        row, blob = write.row, self._blob
        self.turns[sid, row.invocation_id] = (
            sid,
            row.invocation_id,
            row.status,
            row.epoch,
            row.first_seq,
            row.opened_seq,
            row.agent,
            blob(row.outcome),
            blob(row.temp),
            row.last_seq,
            row.begun_s,
            row.ended_s,
            blob(row.usage),
            row.version,
        )
        if write.changes_time:
            self.updated[sid] = write.updated_s

    def put_state(self, write: PutState) -> None:
        """Add changed and removed keys of a state."""
        key, blob = write.key, self._blob
        changed: dict[str, bytes | bytearray | None] = {name: blob(encode(value)) for name, value in write.values.items()}
        changed.update(dict.fromkeys(write.removed))
        if key.session:
            sid = self._sid_of(key)
            self.own.update({(sid, name): value for name, value in changed.items()})
        else:
            self.shared.update({(key.app, key.user, name): value for name, value in changed.items()})

    def add_schedule(self, write: AddSchedule) -> None:
        """Add the row of a schedule."""
        self.schedules.append(new_schedule(write))

    def advance_schedule(self, write: AdvanceSchedule) -> None:
        """Add a schedule that has made a turn."""
        key, time = write.key, write.time
        row = {"app": key.app, "user": key.user, "name": time.name, "id": time.id, "last_s": time.due_s}
        if time.next_s is None:
            self.schedules_over.append(row)
        else:
            self.schedules_on.append({**row, "due_s": time.next_s})

    def clear_own(self) -> None:
        """Forget all rows of sessions, which have been sent."""
        for rows in (self.created, self.events, self.calls, self.model_calls, self.model_call_parts):
            rows.clear()
        for collected in (self.authors, self.turns, self.updated, self.own):
            collected.clear()


def author_rows(rows: CollectedRows) -> list[Row]:
    """The rows of agents that have taken the floor."""
    return [{"sid": sid, "author": author, "seq": seq} for (sid, author), seq in rows.authors.items()]


def new_session(write: CreateSession) -> Row:
    """The row of a new session, without its sid."""
    key = write.key
    times = {"created_s": write.created_s, "updated_s": write.created_s}
    return {"app": key.app, "user": key.user, "session": key.session, "rewinds": 0, **times}


def new_schedule(write: AddSchedule) -> Row:
    """The row of a schedule."""
    key, row = write.key, write.row
    values: Row = {"app": key.app, "user": key.user, "name": row.name, "id": row.id, "session": key.session}
    return values | {name: getattr(row, name) for name in ("due_s", "paused", "last_s", "turns", "error", "raw")}


def new_versions(shared: Iterable[tuple[str, str, str]]) -> list[Row]:
    """A row for the version of each state of which some keys are changed, in the order of their owners.

    Its number counts only if the state had no version: see `schema.shared_versions`.
    """
    owners = sorted({(app, user) for app, user, _ in shared})
    return [{"app": app, "user": user, "version": random.getrandbits(62) + 1} for app, user in owners]


def state_rows(entries: dict[tuple[Any, ...], bytes | bytearray | None], names: tuple[str, ...]) -> tuple[list[Row], list[Row]]:
    """The rows of changed keys of state, and those of removed ones, which have no value.

    Args:
        names: the columns that a key of `entries` has the values of.
    """
    put = [{**dict(zip(names, at, strict=True)), "value": value} for at, value in entries.items() if value is not None]
    removed = [dict(zip(names, at, strict=True)) for at, value in entries.items() if value is None]
    return put, removed
