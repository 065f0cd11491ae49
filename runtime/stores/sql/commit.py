"""Sends the writes of one transaction to the database, in as few statements as their order allows.

Rules of this file:

- Rows of one table are collected and sent at once; of a turn or a key of state only the last value is sent.
- New sessions are sent first, so each collected row belongs to a session that exists, and rows need no order among them.
- Hiding events and removing a session change rows that may still be collected, so these are sent first.
- Rows of state that sessions share are sent last and in the order of their keys, so that two writers of the same keys cannot
  deadlock. On PostgreSQL the version of each such state comes first: of its writers, one at a time has the row of that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, true, update

from actors.errors import SessionExistsError, StoreConflictError
from actors.interfaces.stores import AddEvent, CreateSession, HideEvents, PutState, PutTurn, RemoveSession, Write
from actors.layers.stores.records import (
    AddModelCall,
    AddSchedule,
    AdvanceSchedule,
    ArchiveEvents,
    DeleteModelCalls,
    ForgetBatches,
    ForgetRemoval,
    NoteRemoval,
    PutBatch,
    RemoveSchedule,
    SetDueTime,
)
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.rules.checks.values import check_state
from actors.rules.eviction import LruDict
from actors.rules.routing.selection import is_selectable
from runtime.stores.sql import queries
from runtime.stores.sql import statements as sql
from runtime.stores.sql.archive import move_into_archive
from runtime.stores.sql.database import Rows, SqlTransaction
from runtime.stores.sql.kept_batches import change_batches
from runtime.stores.sql.model_calls import delete_calls
from runtime.stores.sql.schedules import ScheduleWrite, change_schedule
from runtime.stores.sql.schema import (
    FIXED,
    authors,
    calls,
    events,
    model_call_parts,
    model_calls,
    removals,
    session_state,
    sessions,
    shared_state,
    shared_versions,
    turns,
)
from runtime.stores.sql.statements import RowsStatement, Values

GONE = "it is not there"
"""The reason of a conflict over a session that was removed."""

MAX_SIDS = 10_000
"""How many sids a store holds."""

RESERVED = 256
"""Sids that are taken from PostgreSQL at a time: new sessions then take no round trip of their own."""

_CREATE = sql.insert(sessions)
_ADD_EVENT = sql.insert(events, [column for column in events.c if column.name != "hidden"])
_PUT_AUTHOR = sql.upsert(authors)
_ADD_CALL = sql.insert(calls)
_ADD_MODEL_CALL = sql.insert_new(model_calls)
_ADD_PART = sql.insert_new(model_call_parts)
_PUT_TURN = sql.upsert(turns)
_END_TURN = sql.upsert(turns, but=FIXED)
_PUT_TIME = RowsStatement(
    (sessions.c.sid, sessions.c.updated_s),
    "UPDATE raygrove_sessions AS there SET updated_s = given.updated_s FROM given WHERE there.sid = given.sid",
)
_PUT_STATE, _REMOVE_STATE = sql.upsert(session_state), sql.delete(session_state)
_PUT_SHARED, _REMOVE_SHARED = sql.upsert(shared_state), sql.delete(shared_state)

_CHANGE_VERSION = RowsStatement(
    shared_versions.c,
    'INSERT INTO raygrove_shared_versions (app, "user", version) SELECT app, "user", version FROM given WHERE true '
    'ON CONFLICT (app, "user") DO UPDATE SET version = raygrove_shared_versions.version + 1',
)
_FORGET_VERSION = RowsStatement(
    (shared_versions.c.app, shared_versions.c.user),
    'DELETE FROM raygrove_shared_versions AS version WHERE (app, "user") IN (SELECT app, "user" FROM given) AND NOT EXISTS '
    '(SELECT 1 FROM raygrove_shared_state AS there WHERE there.app = version.app AND there."user" = version."user")',
)
_SHARED_SIZE = (
    "SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0)::bigint FROM raygrove_shared_state "
    'WHERE app = ? AND "user" = ?'
)

_SID = 'SELECT sid FROM raygrove_sessions WHERE app = ? AND "user" = ? AND session = ?'
_LAST_SID = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
"""SQL: the largest sid that any session has had, on SQLite."""
_RESERVE = "SELECT nextval(pg_get_serial_sequence('raygrove_sessions', 'sid')) FROM generate_series(1, ?)"

_HIDE = (
    update(events)
    .where(events.c.sid == bindparam("of_sid"), events.c.seq.between(bindparam("first_seq"), bindparam("last_seq")))
    .values(hidden=true())
)
_REWOUND = update(sessions).where(sessions.c.sid == bindparam("of_sid")).values(rewinds=sessions.c.rewinds + 1)
_REMOVE = delete(sessions).where(
    sessions.c.app == bindparam("app"), sessions.c.user == bindparam("user"), sessions.c.session == bindparam("session")
)
_NOTE_REMOVAL, _FORGET_REMOVAL = sql.insert_new(removals), sql.delete(removals)


_NOWHERE = 0
"""In place of a position. Those of events begin with 1."""

_visible = events.c.hidden.is_(False)

# The newest event of the author. The databases walk the log back to it, which is short for an agent that speaks often.
_newest_seq = (
    select(events.c.seq)
    .where(events.c.sid == authors.c.sid, events.c.author == authors.c.author, _visible)
    .order_by(events.c.seq.desc())
    .limit(1)
    .correlate(authors)
    .scalar_subquery()
)
_CORRECT = (
    update(authors)
    .where(authors.c.sid == bindparam("of_sid"), authors.c.seq.between(bindparam("first_seq"), bindparam("last_seq")))
    .values(seq=func.coalesce(_newest_seq, _NOWHERE))
)
_DROP = delete(authors).where(authors.c.sid == bindparam("of_sid"), authors.c.seq == _NOWHERE)

_NEWEST = (
    select(events.c.author, func.max(events.c.seq)).where(events.c.sid == bindparam("of_sid"), _visible).group_by(events.c.author)
)


class Sids:
    """The numbers of sessions.

    Attributes:
        known: those of the sessions that were used last, which saves a query in each commit.
        reserved: those that no session has yet. PostgreSQL has reserved them for this store.
    """

    def __init__(self) -> None:
        self.known = LruDict[SessionKey, int](MAX_SIDS)
        self.reserved: list[int] = []


class Commit:
    """Collects writes and sends them in a transaction that the caller begins and ends.

    Args:
        max_shared_bytes: how large the state of a user or of the app may become. None where one writer checks that; with several,
            which PostgreSQL only allows, each has checked what it knew.
    """

    def __init__(self, transaction: SqlTransaction, sids: Sids, max_shared_bytes: int | None = None) -> None:
        self._transaction = transaction
        self._sids = sids
        self._max_shared_bytes = max_shared_bytes
        self._last_sid = 0
        self._created: list[Values] = []
        self._events: list[Values] = []
        self._authors: dict[tuple[int, str], int] = {}
        self._calls: list[Values] = []
        self._model_calls: list[Values] = []
        self._parts: list[Values] = []
        # By sid and invocation id, by sid, by sid and key, and by app, user and key. None stands for a key that is removed.
        self._turns: dict[tuple[int, str], Values] = {}
        self._updated: dict[int, float] = {}
        self._own: dict[tuple[int, str], bytes | None] = {}
        self._shared: dict[tuple[str, str, str], bytes | None] = {}

    def write(self, writes: Sequence[Write]) -> None:
        """Do all writes, with the same effect as one after the other.

        Raises:
            StoreConflictError: a session to write to does not exist.
            NotEncodableError: a value of the state cannot be encoded.
            TooLargeError: the state of a user or of the app would become larger than `max_shared_bytes`.
            sqlite3.IntegrityError, psycopg.IntegrityError: see `find_conflict`.
        """
        for write in writes:
            _DO[type(write)](self, write)
        self._flush()
        if self._shared:
            self._send_shared()

    def _sid(self, key: SessionKey) -> int:
        """The sid of a session. Raises StoreConflictError when it is not there."""
        sid = self._sids.known.get(key)
        if sid is None:
            if self._created:
                # More of them than are known.
                self._flush()
            found = self._transaction.found(_SID, (key.app, key.user, key.session))
            if not found:
                raise StoreConflictError(key.session, GONE)
            [(sid,)] = found
            self._sids.known[key] = sid
        return sid

    def _new_sid(self) -> int:
        """A sid that no session has had."""
        if self._transaction.is_sqlite:
            # No other transaction writes meanwhile.
            if not self._last_sid:
                [(self._last_sid,)] = self._transaction.found(_LAST_SID, (sessions.name,))
            self._last_sid += 1
            return self._last_sid
        if not self._sids.reserved:
            self._sids.reserved = [sid for (sid,) in self._transaction.found(_RESERVE, (RESERVED,))]
        return self._sids.reserved.pop()

    def _create(self, write: CreateSession) -> None:
        key = write.key
        self._sids.known[key] = sid = self._new_sid()
        self._created.append((sid, key.app, key.user, key.session, 0, write.created_s, write.created_s))

    def _add_event(self, write: AddEvent) -> None:
        sid, row = self._sid(write.key), write.row
        head = row.head
        undo = row.undo or None
        self._events.append((sid, row.seq, head.id, head.invocation_id, head.author, head.timestamp, undo, row.raw))
        if write.takes_floor and is_selectable(head.author):
            self._authors[sid, head.author] = row.seq
        self._calls += [(sid, call_id, row.seq) for call_id in dict.fromkeys(row.calls)]

    def _put_turn(self, write: PutTurn) -> None:
        sid, row = self._sid(write.key), write.row
        self._turns[sid, row.invocation_id] = (
            sid,
            row.invocation_id,
            row.status,
            row.epoch,
            row.first_seq,
            row.opened_seq,
            row.agent,
            row.outcome,
            row.temp,
            row.last_seq,
            row.begun_s,
            row.ended_s,
            row.usage,
            row.version,
        )
        if write.changes_time:
            self._updated[sid] = write.updated_s

    def _put_state(self, write: PutState) -> None:
        key = write.key
        changed: dict[str, bytes | None] = {name: encode(value) for name, value in write.values.items()}
        changed.update(dict.fromkeys(write.removed))
        if key.session:
            sid = self._sid(key)
            self._own.update({(sid, name): value for name, value in changed.items()})
        else:
            self._shared.update({(key.app, key.user, name): value for name, value in changed.items()})

    def _add_model_call(self, write: AddModelCall) -> None:
        sid, row = self._sid(write.key), write.row
        self._model_calls.append((sid, row.id, row.invocation_id, row.seq, row.begun_s, row.raw))
        self._parts += [(sid, part.digest, part.raw) for part in write.parts]

    def _delete_model_calls(self, write: DeleteModelCalls) -> None:
        self._flush()
        with suppress(StoreConflictError):
            sid = self._sid(write.key)
            delete_calls(self._transaction.connection, sid, model_calls.c.begun_s < write.before_s)

    def _hide_events(self, write: HideEvents) -> None:
        self._flush()
        sid = self._sid(write.key)
        connection = self._transaction.connection
        connection.execute(_HIDE, {"of_sid": sid, "first_seq": write.first_seq, "last_seq": write.last_seq})
        if not connection.execute(_REWOUND, {"of_sid": sid}).rowcount:
            raise StoreConflictError(write.key.session, GONE)
        correct_authors(connection, sid, write.first_seq, write.last_seq)
        delete_calls(connection, sid, model_calls.c.seq.between(write.first_seq, write.last_seq))

    def _remove_session(self, write: RemoveSession) -> None:
        self._flush()
        key = write.key
        self._sids.known.pop(key)
        self._transaction.connection.execute(_REMOVE, {"app": key.app, "user": key.user, "session": key.session})

    def _note_removal(self, write: NoteRemoval) -> None:
        noted, key = write.session, write.key
        row = (key.app, key.user, key.session, noted.updated_s, noted.events, noted.turns)
        self._transaction.send(_NOTE_REMOVAL, [row])

    def _forget_removal(self, write: ForgetRemoval) -> None:
        key = write.key
        self._transaction.send(_FORGET_REMOVAL, [(key.app, key.user, key.session)])

    def _archive_events(self, write: ArchiveEvents) -> None:
        self._flush()
        with suppress(StoreConflictError):
            sid = self._sid(write.key)
            move_into_archive(self._transaction.connection, sid, write.last_seq)

    def _change_schedule(self, write: ScheduleWrite) -> None:
        # Of no session: a schedule outlives those that are deleted.
        change_schedule(self._transaction, write)

    def _change_batches(self, write: PutBatch | ForgetBatches) -> None:
        change_batches(self._transaction, write)

    def _flush(self) -> None:
        """Send what belongs to sessions: of most commits an event, a turn and the time of each session."""
        send, turns = self._transaction.send, self._turns.values()
        send(_CREATE, self._created)
        send(_ADD_EVENT, self._events)
        send(_PUT_AUTHOR, [(*at, seq) for at, seq in self._authors.items()])
        send(_ADD_CALL, self._calls)
        send(_ADD_MODEL_CALL, self._model_calls)
        send(_ADD_PART, self._parts)
        # A turn that ends began as its record says. One that runs may have the id of one that was rewound.
        send(_PUT_TURN, [row for row in turns if row[_STATUS] == "running"])
        send(_END_TURN, [row for row in turns if row[_STATUS] != "running"])
        send(_PUT_TIME, list(self._updated.items()))
        send(_PUT_STATE, [(*at, value) for at, value in self._own.items() if value is not None])
        send(_REMOVE_STATE, [at for at, value in self._own.items() if value is None])
        for sent in (self._created, self._events, self._calls, self._model_calls, self._parts):
            sent.clear()
        for collected in (self._authors, self._turns, self._updated, self._own):
            collected.clear()

    def _send_shared(self) -> None:
        transaction, shared = self._transaction, sorted(self._shared.items())
        owners = sorted({(app, user) for app, user, _ in self._shared})
        removed = [at for at, value in shared if value is None]
        if not transaction.is_sqlite:
            # The number counts only if the state had no version: see `schema.shared_versions`.
            transaction.send(_CHANGE_VERSION, [(*owner, random.getrandbits(62) + 1) for owner in owners])
        transaction.send(_PUT_SHARED, [(*at, value) for at, value in shared if value is not None])
        transaction.send(_REMOVE_SHARED, removed)
        if not transaction.is_sqlite:
            transaction.send(_FORGET_VERSION, sorted({(app, user) for app, user, _ in removed}))
        if self._max_shared_bytes is not None:
            for app, user in owners:
                [(size,)] = transaction.found(_SHARED_SIZE, (app, user))
                check_state("user" if user else "app", size, self._max_shared_bytes)


_STATUS = turns.c.keys().index("status")

_DO: dict[type, Callable[[Commit, Any], None]] = {
    AddEvent: Commit._add_event,
    PutTurn: Commit._put_turn,
    CreateSession: Commit._create,
    PutState: Commit._put_state,
    HideEvents: Commit._hide_events,
    RemoveSession: Commit._remove_session,
    NoteRemoval: Commit._note_removal,
    ForgetRemoval: Commit._forget_removal,
    ArchiveEvents: Commit._archive_events,
    AddSchedule: Commit._change_schedule,
    SetDueTime: Commit._change_schedule,
    AdvanceSchedule: Commit._change_schedule,
    RemoveSchedule: Commit._change_schedule,
    AddModelCall: Commit._add_model_call,
    DeleteModelCalls: Commit._delete_model_calls,
    PutBatch: Commit._change_batches,
    ForgetBatches: Commit._change_batches,
}


def find_conflict(
    writes: Sequence[Write], sid_of: Callable[[SessionKey], int | None], rows: Callable[..., Rows]
) -> SessionExistsError | StoreConflictError | None:
    """The first conflict of writes that have violated a constraint and were rolled back, or None.

    Neither database names the row in a form to rely on, so each write is compared with the tables and the writes before it.

    Args:
        sid_of: looks up a session's sid.
        rows: runs a query, its parameters by keyword.
    """
    stored: set[tuple[SessionKey, int | str]] = set()
    # The sessions of which the writes say whether they are there.
    is_there: dict[SessionKey, bool] = {}
    for write in writes:
        key = write.key
        if isinstance(write, AddEvent):
            sid = sid_of(key)
            taken = [] if sid is None else rows(queries.TAKEN, sid=sid, seq=write.row.seq, id=write.row.head.id)
            reason = _reason(write, taken, stored)
            if reason is not None:
                return StoreConflictError(key.session, reason)
            stored |= {(key, write.row.seq), (key, write.row.head.id)}
        elif isinstance(write, CreateSession):
            if is_there.get(key, sid_of(key) is not None):
                return SessionExistsError(key.app, key.user, key.session)
            is_there[key] = True
        elif isinstance(write, RemoveSession):
            is_there[key] = False
    for key in dict.fromkeys(write.key for write in writes):
        if key.session and key not in is_there and sid_of(key) is None:
            return StoreConflictError(key.session, GONE)
    return None


def _reason(write: AddEvent, taken: Rows, stored: set[tuple[SessionKey, int | str]]) -> str | None:
    """Why an event cannot be stored: its id or its seq is taken by a row, or by an earlier write."""
    seq, event_id = write.row.seq, write.row.head.id
    if (write.key, event_id) in stored or any(row.id == event_id for row in taken):
        return f"event {event_id!r} is there already"
    if (write.key, seq) in stored or taken:
        return f"place {seq} of its log is taken"
    return None


def correct_authors(connection: Connection, sid: int, first_seq: int, last_seq: int) -> None:
    """Find what agents said last before events of theirs were hidden.

    Args:
        first_seq, last_seq: the positions of the events that were hidden, both included.
    """
    hidden = {"of_sid": sid, "first_seq": first_seq, "last_seq": last_seq}
    if connection.execute(_CORRECT, hidden).rowcount:
        connection.execute(_DROP, {"of_sid": sid})


def derive_authors(connection: Connection, sid: int) -> None:
    """Find all agents that have spoken in a session that is new in this store."""
    newest = connection.execute(_NEWEST, {"of_sid": sid})
    rows = [{"sid": sid, "author": author, "seq": seq} for author, seq in newest if is_selectable(author)]
    if rows:
        connection.execute(insert(authors), rows)
