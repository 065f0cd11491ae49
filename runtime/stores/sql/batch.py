"""Sends the writes of one transaction to the database, in as few statements as their order allows.

Rules of this file:

- Rows of one table are collected and sent in one `executemany`; of a turn or a key of state only the last value is sent.
- Sessions are created first, so each collected row belongs to a session that exists, and rows need no order among them.
- Hiding events and removing a session change rows that may still be collected, so these are sent first.
- Rows of state that sessions share are sent last and in the order of their keys, so that two writers of the same keys cannot
  deadlock. On PostgreSQL the version of each such state comes first: of its writers, one at a time has the row of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    ClauseElement,
    Connection,
    Delete,
    Insert,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql

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
from actors.messages.limits import Limits
from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import LruDict
from actors.rules.checks.sizes import check_state
from runtime.stores.sql import queries, statements
from runtime.stores.sql.archive import move_into_archive
from runtime.stores.sql.authors import correct_authors
from runtime.stores.sql.collected_rows import (
    EVENT_COLUMNS,
    STATUS,
    TURN_COLUMNS,
    CollectedRows,
    author_rows,
    new_session,
    new_versions,
    state_rows,
)
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
from runtime.stores.sql.statements import Row, Values, insert_into, insert_new, upsert

GONE = "it is not there"
"""The reason of a conflict over a session that was removed."""

_INSERT_EVENT = insert(events)
_INSERT_CALL = insert(calls)
_HIDE = (
    update(events)
    .where(events.c.sid == bindparam("of_sid"), events.c.seq.between(bindparam("first_seq"), bindparam("last_seq")))
    .values(hidden=true())
)
_REWOUND = update(sessions).where(sessions.c.sid == bindparam("of_sid")).values(rewinds=sessions.c.rewinds + 1)
_UPDATED = update(sessions).where(sessions.c.sid == bindparam("of_sid")).values(updated_s=bindparam("at_s"))
_REMOVE = delete(sessions).where(
    sessions.c.app == bindparam("app"), sessions.c.user == bindparam("user"), sessions.c.session == bindparam("session")
)

_FORGET = delete(removals).where(
    removals.c.app == bindparam("app"), removals.c.user == bindparam("user"), removals.c.session == bindparam("session")
)

_CHANGE_VERSION = postgresql.insert(shared_versions).on_conflict_do_update(
    index_elements=["app", "user"], set_={"version": shared_versions.c.version + literal_column("1")}
)
_FORGET_VERSION = delete(shared_versions).where(
    shared_versions.c.app == bindparam("of_app"),
    shared_versions.c.user == bindparam("of_user"),
    ~select(shared_state.c.key)
    .where(shared_state.c.app == shared_versions.c.app, shared_state.c.user == shared_versions.c.user)
    .correlate(shared_versions)
    .exists(),
)
_SIZE_SHARED = select(
    func.coalesce(func.sum(func.octet_length(shared_state.c.key) + func.octet_length(shared_state.c.value)), 0)
).where(shared_state.c.app == bindparam("app"), shared_state.c.user == bindparam("user"))


_LAST_SID = f"SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = '{sessions.name}'"
"""SQL: the largest sid that any session has had, on SQLite."""

MAX_SIDS = 10_000
"""How many sids a store holds."""

Sids = LruDict[SessionKey, int]
"""The sids of the sessions that were used last, which saves a query in each commit."""


def _sid_of(connection: Connection, sids: Sids, key: SessionKey) -> int:
    """The sid of a session. Raises StoreConflictError when it is not there."""
    sid = sids.get(key)
    if sid is not None:
        return sid
    found: int | None = connection.execute(
        queries.SID, {"app": key.app, "user": key.user, "session": key.session}
    ).scalar_one_or_none()
    if found is None:
        raise StoreConflictError(key.session, GONE)
    sids[key] = found
    return found


def _come_first(created: Sequence[CreateSession], writes: Sequence[Write]) -> bool:
    """Whether no write removes a session, or is to one that is created later: that one is refused, and so are all."""
    later = {write.key for write in created}
    for write in writes:
        kind = type(write)
        if kind is CreateSession:
            later.discard(write.key)
        elif kind is RemoveSession or getattr(write, "key", None) in later:
            return False
    return True


class Batch:
    """Collects writes and sends them in a transaction that the caller begins and ends.

    Args:
        max_shared_bytes: how large the state of a user or of the app may become. None where one writer checks that; with several,
            which PostgreSQL only allows, each has checked what it knew.
    """

    def __init__(self, connection: Connection, sids: Sids, max_shared_bytes: int | None = None) -> None:
        self._max_shared_bytes = max_shared_bytes
        self._connection = connection
        self._dialect = connection.dialect.name
        self._sids = sids
        # No method of this object: the two would hold each other, and each commit would leave garbage for the collector.
        self._sid = partial(_sid_of, connection, sids)
        # For a value that is no text, number or bytearray, Python's driver looks for a protocol: that takes longer than a copy.
        self._rows = CollectedRows(self._sid, bytearray if self._dialect == "sqlite" else bytes)
        self._created: Set[SessionKey] = frozenset()

    def write(self, writes: Sequence[Write]) -> None:
        """Do all writes, with the same effect as one after the other.

        Raises:
            SessionExistsError: a session to create exists.
            StoreConflictError: a session to write to does not exist.
            NotEncodableError: a value of the state cannot be encoded.
            TooLargeError: the state of a user or of the app would become larger than `max_shared_bytes`.
            sqlalchemy.exc.IntegrityError: the seq or id of an event is taken, or another writer has removed its session.
        """
        self._create_many(writes)
        rows = self._rows
        for write in writes:
            if isinstance(write, AddEvent):
                rows.add_event(write)
            elif isinstance(write, PutTurn):
                rows.put_turn(write)
            else:
                _DO[type(write)](self, write)
        self._send_own()
        if self._rows.shared:
            self._flush_shared()

    def _create_many(self, writes: Sequence[Write]) -> None:
        """Create the sessions of a group in one go, each with the next sid: SQLite has one writer at a time. Where the order of
        the writes says that one is there or not, each is created in its turn.

        PostgreSQL's are created at once by `OneStatementCommits`.
        """
        created = [write for write in writes if type(write) is CreateSession]
        if len(created) < 2 or self._dialect != "sqlite" or not _come_first(created, writes):
            return
        last: int = statements.value(self._connection, _LAST_SID, ())
        rows = [{"sid": sid, **new_session(write)} for sid, write in enumerate(created, last + 1)]
        sql, values_of = statements.sql_of_rows(insert_new(sessions, self._dialect), self._connection.dialect, tuple(rows[0]))
        assert values_of is not None
        if statements.execute(self._connection, sql, list(map(values_of, rows))) < len(rows):
            taken = (write for write, row in zip(created, rows, strict=True) if self._sid(write.key) != row["sid"])
            key = next(taken).key
            raise SessionExistsError(key.app, key.user, key.session)
        self._created = {write.key for write in created}
        for write, row in zip(created, rows, strict=True):
            self._sids[write.key] = row["sid"]

    def _create(self, write: CreateSession) -> None:
        if write.key in self._created:
            return
        key, row = write.key, new_session(write)
        sql, values_of = statements.sql_of_rows(_create_session(self._dialect), self._connection.dialect, tuple(row))
        given = values_of(row) if values_of is not None else row
        sid: int | None = statements.value(self._connection, sql, given)
        if sid is None:
            raise SessionExistsError(key.app, key.user, key.session)
        self._sids[key] = sid

    def _delete_model_calls(self, write: DeleteModelCalls) -> None:
        self._flush()
        with suppress(StoreConflictError):
            delete_calls(self._connection, self._sid(write.key), model_calls.c.begun_s < write.before_s)

    def _put_state(self, write: PutState) -> None:
        self._rows.put_state(write)

    def _hide_events(self, write: HideEvents) -> None:
        self._flush()
        sid = self._sid(write.key)
        self._connection.execute(_HIDE, {"of_sid": sid, "first_seq": write.first_seq, "last_seq": write.last_seq})
        if not self._connection.execute(_REWOUND, {"of_sid": sid}).rowcount:
            raise StoreConflictError(write.key.session, GONE)
        correct_authors(self._connection, sid, write.first_seq, write.last_seq)
        delete_calls(self._connection, sid, model_calls.c.seq.between(write.first_seq, write.last_seq))

    def _remove_session(self, write: RemoveSession) -> None:
        self._flush()
        key = write.key
        self._sids.pop(key)
        self._connection.execute(_REMOVE, {"app": key.app, "user": key.user, "session": key.session})

    def _note_removal(self, write: NoteRemoval) -> None:
        noted, key = write.session, write.key
        row: Row = {"app": key.app, "user": key.user, "session": key.session}
        row |= {"updated_s": noted.updated_s, "events": noted.events, "turns": noted.turns}
        self._connection.execute(insert_new(removals, self._dialect), row)

    def _forget_removal(self, write: ForgetRemoval) -> None:
        key = write.key
        self._connection.execute(_FORGET, {"app": key.app, "user": key.user, "session": key.session})

    def _archive_events(self, write: ArchiveEvents) -> None:
        self._flush()
        with suppress(StoreConflictError):
            move_into_archive(self._connection, self._sid(write.key), write.last_seq)

    def _change_schedule(self, write: ScheduleWrite) -> None:
        # Of no session: a schedule outlives those that are deleted.
        change_schedule(self._connection, write)

    def _flush(self) -> None:
        self._send_own()
        self._rows.clear_own()

    def _send_own(self) -> None:
        """Send what belongs to sessions: of most commits an event, a turn and the time of each session."""
        rows = self._rows
        self._send_values(_INSERT_EVENT, EVENT_COLUMNS, rows.events)
        if rows.authors:
            self._send(upsert(authors, self._dialect), author_rows(rows))
        if rows.calls:
            self._send(_INSERT_CALL, rows.calls)
        if rows.model_calls:
            self._send(insert_new(model_calls, self._dialect), rows.model_calls)
            self._send(insert_new(model_call_parts, self._dialect), rows.model_call_parts)
        # A turn that ends began as its record says. One that runs may have the id of one that was rewound.
        run: list[Values] = []
        ended: list[Values] = []
        for values in rows.turns.values():
            (run if values[STATUS] == "running" else ended).append(values)
        self._send_values(upsert(turns, self._dialect), TURN_COLUMNS, run)
        self._send_values(upsert(turns, self._dialect, but=FIXED), TURN_COLUMNS, ended)
        self._send_values(_UPDATED, ("of_sid", "at_s"), list(rows.updated.items()))
        if rows.own:
            self._send_state(session_state, *state_rows(rows.own, ("sid", "key")))

    def _flush_shared(self) -> None:
        shared = dict(sorted(self._rows.shared.items()))
        put, removed = state_rows(shared, ("app", "user", "key"))
        if self._dialect == "postgresql":
            self._send(_CHANGE_VERSION, new_versions(self._rows.shared))
        self._send_state(shared_state, put, removed)
        if self._dialect == "postgresql":
            fewer = {(row["app"], row["user"]) for row in removed}
            self._send(_FORGET_VERSION, [{"of_app": app, "of_user": user} for app, user in sorted(fewer)])
        if self._max_shared_bytes is not None:
            for app, user in sorted({(app, user) for app, user, _ in shared}):
                self._check_shared(app, user)

    def _check_shared(self, app: str, user: str) -> None:
        """Check the state that several writers add to, each of which has checked its own part. Raises TooLargeError."""
        size: int = self._connection.execute(_SIZE_SHARED, {"app": app, "user": user}).scalar_one()
        if self._max_shared_bytes is not None:
            check_state("user" if user else "app", size, Limits(max_state_bytes=self._max_shared_bytes))

    def _send_state(self, table: Table, put: Sequence[Row], removed: Sequence[Row]) -> None:
        self._send(upsert(table, self._dialect), put)
        self._send(_delete(table), [{f"of_{column}": name for column, name in at.items()} for at in removed])

    def _send(self, statement: ClauseElement, rows: Sequence[Row]) -> None:
        if rows:
            # As SQL that is made once: `Connection.execute` looks at statement and values anew each time, which costs as much
            # time as the rest of a small commit without the disk.
            sql, values_of = statements.sql_of_rows(statement, self._connection.dialect, tuple(rows[0]))
            statements.execute(self._connection, sql, list(map(values_of, rows)) if values_of is not None else rows)

    def _send_values(self, statement: ClauseElement, columns: tuple[str, ...], rows: Sequence[Values]) -> None:
        """The same for rows that have no names in them."""
        if rows:
            sql, in_order = statements.sql_of_values(statement, self._connection.dialect, columns)
            statements.execute(self._connection, sql, list(map(in_order, rows)) if in_order is not None else rows)


_DO: dict[type, Callable[[Batch, Any], None]] = {
    CreateSession: Batch._create,
    PutState: Batch._put_state,
    HideEvents: Batch._hide_events,
    RemoveSession: Batch._remove_session,
    NoteRemoval: Batch._note_removal,
    ForgetRemoval: Batch._forget_removal,
    ArchiveEvents: Batch._archive_events,
    AddSchedule: Batch._change_schedule,
    SetDueTime: Batch._change_schedule,
    AdvanceSchedule: Batch._change_schedule,
    RemoveSchedule: Batch._change_schedule,
    AddModelCall: lambda batch, write: batch._rows.add_model_call(write),
    DeleteModelCalls: Batch._delete_model_calls,
    PutBatch: lambda batch, write: change_batches(batch._connection, write),
    ForgetBatches: lambda batch, write: change_batches(batch._connection, write),
}


@cache
def _create_session(dialect: str) -> Insert:
    # No error on a taken key: PostgreSQL would abort the transaction before SessionExistsError could name the session.
    statement: Insert = insert_into(sessions, dialect).on_conflict_do_nothing().returning(sessions.c.sid)
    return statement


@cache
def _delete(table: Table) -> Delete:
    return delete(table).where(*(column == bindparam(f"of_{column.name}") for column in table.primary_key.columns))
