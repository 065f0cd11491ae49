"""The session store on a SQL database: SQLite in a file by default, PostgreSQL by its URL."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Row, Select
from sqlalchemy.exc import IntegrityError

from actors.errors import RaygroveError
from actors.interfaces.stores import CallRow, SessionRow, TurnFilter, TurnRow, VersionedState, Write
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.parts import SessionStore
from actors.layers.stores.records import ModelCallRow, OldSession, TurnId, TurnName, UsageFilter, UsagePage, UsagePlace
from actors.layers.stores.schedule import DuePlace, ScheduleRow
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey, SessionPlace
from runtime.stores.sql import kept_batches as of_batches
from runtime.stores.sql import model_calls as of_calls
from runtime.stores.sql import queries, schema
from runtime.stores.sql import schedules as of_schedules
from runtime.stores.sql.archive import ArchiveReader
from runtime.stores.sql.commit import Commit, Sids, find_conflict
from runtime.stores.sql.database import LOCK_TIMEOUT_S, Database, Rows, Tuples
from runtime.stores.sql.kept_batches import to_batch, to_item
from runtime.stores.sql.model_calls import model_call_row
from runtime.stores.sql.placing import PlacedSqlStore
from runtime.stores.sql.schedules import schedule_row
from runtime.stores.sql.statements import pages
from runtime.stores.sql.usage import turn_names, usage_page

T = TypeVar("T")

_ScheduleColumns = namedtuple("_ScheduleColumns", schema.schedules.c.keys())  # type: ignore[misc]

MAX_ROWS = 2**62
"""Rows of a list that has no limit."""

MOVED_EVENTS = 512
"""Events that one transaction moves into the archive, at most."""

MOVED_BYTES = 512_000
"""Their bytes, unless a single event has more: to compress them takes some ten milliseconds."""


class _SessionColumns(NamedTuple):
    """The columns of `queries.SESSION`, in its order."""

    sid: int
    app: str
    user: str
    session: str
    rewinds: int
    created_s: float
    updated_s: float
    head_seq: int


class SessionRows:
    """Runs queries about one session each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sids = Sids()
        self._connections = 0

    def session(self, key: SessionKey) -> SessionRow | None:
        """The record of a session: see `SqlSessionStore.session`. Raises StoreError."""
        while True:
            # As the driver has them: a turn of a session that is not in memory waits, and SQLAlchemy's rows double the time.
            found = self._database.tuples(queries.SESSION, columns_of(key), by_keys=True)
            if not found:
                return None
            row = _SessionColumns(*found[0])
            sid = self.sids().known[key] = row.sid
            authors = tuple((author, seq) for author, seq in self._database.tuples(queries.AUTHORS, {"sid": sid}, by_keys=True))
            state = values_of(self._database.tuples(queries.STATE, {"sid": sid}, by_keys=True))
            if self.sids().known.get(key) == sid:
                return session_row(row, authors, state)

    def rows(self, key: SessionKey, query: Any, **parameters: Any) -> Rows:
        """The rows that a query finds by a session's sid; none when there is no such session. Raises StoreError."""
        return self._found(key, lambda sid: self._database.rows(query, {"sid": sid, **parameters}, by_keys=True))

    def tuples(self, key: SessionKey, query: Select[Any], **parameters: Any) -> Tuples:
        """The same as its driver has them: see `Database.tuples`."""
        return self._found(key, lambda sid: self._database.tuples(query, {"sid": sid, **parameters}, by_keys=True))

    def _found(self, key: SessionKey, read: Callable[[int], Sequence[T]]) -> Sequence[T]:
        while (sid := self.sid(key)) is not None:
            rows = read(sid)
            if self.sids().known.get(key) == sid:
                return rows
        return []

    def sid(self, key: SessionKey) -> int | None:
        """The sid of a session; None when there is no such session. Raises StoreError."""
        sid = self.sids().known.get(key)
        if sid is None:
            found = self._database.tuples(queries.SID, columns_of(key), by_keys=True)
            if not found:
                return None
            [(sid,)] = found
            self.sids().known[key] = sid
        return sid

    def sids(self) -> Sids:
        """Those of this connection: behind another one may be an older copy, in which they are those of other sessions."""
        if self._connections != self._database.connections:
            self._sids = Sids()
            self._connections = self._database.connections
        return self._sids

    def forget_sids(self) -> None:
        """Look all sids up again."""
        self._sids.known.clear()


class SqlSessionStore(PlacedSqlStore, SessionStore):
    """Implements all of `SessionStore`, on SQLite or PostgreSQL.

    One connection stays open. Each `commit` is one transaction on it; reads run outside of transactions. A broken connection is
    replaced at the next call.

    Args:
        url: `sqlite:///path` (relative), `sqlite:////path` (absolute; missing folders are made), `sqlite://` (in memory,
            gone after `close`) or `postgresql://…`.
        lock_timeout_s: how long one request waits for a lock of another process.
        max_shared_bytes: how large the state of a user, or of the app, may become by writes of several Session actors; None
            leaves the check to the only one.

    Raises:
        StoreError: the URL is none of these.
    """

    def __init__(self, url: str, lock_timeout_s: float = LOCK_TIMEOUT_S, max_shared_bytes: int | None = None) -> None:
        super().__init__(Database(url, lock_timeout_s=lock_timeout_s))
        self._max_shared_bytes = max_shared_bytes
        self._of = SessionRows(self._database)
        self._archive = ArchiveReader(self._of.rows, str(self))
        self._versions_of = 0

    def _prepare(self, connection: Connection) -> None:
        schema.prepare(connection)

    def commit(self, writes: Sequence[Write]) -> None:
        """Do all writes in order, in one transaction. They are on disk when it returns.

        Raises:
            SessionExistsError: a session to create exists.
            StoreConflictError: the seq or id of an event is taken, or the session does not exist.
            NotEncodableError: a value of the state cannot be encoded.
            WriterReplacedError: another store has claimed the place of this one.
            StoreRevertedError: the database has gone back to an older copy of itself since the last commit.
            TooLargeError: the state of a user or of the app would become too large.
            StoreUnavailableError: the database cannot do it now. None of the writes is stored, unless the connection broke
                while the database was committing: then all may be.
            StoreError: the database cannot do it. None of the writes is stored.
        """
        if not writes:
            return
        try:
            self._commit(lambda transaction: Commit(transaction, self._of.sids(), self._max_shared_bytes).write(writes))
        except BaseException as error:
            # The sids of sessions that this transaction has created are void.
            self._of.forget_sids()
            if isinstance(error, RaygroveError) or not isinstance(error, Exception):
                raise
            if isinstance(error, IntegrityError) and (conflict := find_conflict(writes, self._of.sid, self._rows)) is not None:
                raise conflict from error
            raise self._database.failure(error) from error

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None. Costs an index lookup, one more for each author, and a read of its state."""
        return self._of.session(key)

    def may_exist(self, keys: Sequence[SessionKey]) -> Sequence[SessionKey]:
        """Those of some sessions that are there."""
        found = self._database.found(queries.EXISTING, [(key.app, key.user, key.session) for key in keys])
        return [SessionKey(*row) for row in found]

    def sessions(
        self, app: str, user: str | None, *, limit: int | None = None, before: SessionPlace | None = None
    ) -> list[SessionRow]:
        """Sessions of a user, or with None of all users of the app, last updated first; `authors` is left empty.

        A page of all users costs the same wherever it begins, one of a user a look at the times of the user's sessions.
        """
        of_user = user is not None
        owner: dict[str, object] = {"app": app, "user": user} if of_user else {"app": app}
        if limit is None and before is None:
            rows = self._rows(queries.session_list(of_user=of_user), **owner)
            found = self._rows(queries.state_list(of_user=of_user), **owner)
        else:
            place: dict[str, object] = {} if before is None else {f"before_{name}": at for name, at in before._asdict().items()}
            query = queries.session_list(of_user=of_user, paged=True, after_another=before is not None)
            rows = self._rows(query, **owner, **place, limit=limit if limit is not None else MAX_ROWS)
            found = [
                row for part in pages([row.sid for row in rows]) for row in self._rows(queries.STATES_OF_SESSIONS, sids=part)
            ]
        states: dict[int, JsonObject] = {}
        for sid, name, value in found:
            states.setdefault(sid, {})[name] = msgspec.msgpack.decode(value)
        return [session_row(row, (), states.get(row.sid, {})) for row in rows]

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
            after_seq, before_seq: only later, or earlier ones.
            limit: only the first ones of these; with `newest` the last ones.
            after_s: only those from this time on.
        """
        query = queries.event_list(
            limited=limit is not None, since=after_s is not None, newest=newest, before=before_seq is not None
        )
        given = {"limit": limit, "after_s": after_s, "before_seq": before_seq}
        filters = {name: value for name, value in given.items() if value is not None}

        def read() -> list[tuple[int, bytes]]:
            return [(seq, raw) for seq, raw in self._of.rows(key, query, after_seq=after_seq, **filters)]

        found = self._archive.raws(key, read)
        return found[::-1] if newest else found

    def undos(self, key: SessionKey, first_seq: int) -> list[tuple[int, bytes]]:
        """The `undo` of each event from `first_seq` on that has one, visible or not, as (seq, undo), newest first."""
        return self._archive.undos(
            key, lambda: [(seq, undo) for seq, undo in self._of.rows(key, queries.UNDOS, first_seq=first_seq)]
        )

    def state(self, app: str, user: str) -> tuple[JsonObject, JsonObject]:
        """The app's state and the user's, values by key without prefix."""
        rows = self._database.rows(queries.SHARED_STATE, {"app": app, "user": user}, by_keys=True)
        return values_of([row[1:] for row in rows if not row.user]), values_of([row[1:] for row in rows if row.user])

    def changed_states(self, app: str, known: Mapping[str, int]) -> Mapping[str, VersionedState]:
        """Those states of an app, "", and of its users that are not in the version known; on SQLite, which has none, all."""
        of_all = [(app, user, -1) for user in known]
        changed = of_all if self._database.is_sqlite else [(app, user, version) for user, version in known.items()]
        rows = self._database.found(queries.CHANGED_STATES, changed)
        if self._versions_of != self._database.connections:
            # An older copy of the database may come to the same versions by other changes.
            self._versions_of = self._database.connections
            rows = self._database.found(queries.CHANGED_STATES, of_all)
        found: dict[str, VersionedState] = {}
        for user, version, name, value in rows:
            values = found.setdefault(user, VersionedState(version, {})).values
            if name is not None:
                values[name] = msgspec.msgpack.decode(value)
        return found

    def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn, or None. A turn whose first event was rewound is not found."""
        found = self._of.rows(key, queries.TURN, invocation_id=invocation_id)
        return _turn_row(found[0]) if found else None

    def turns(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """Turns that were not rewound, newest first. The cost does not grow with older turns.

        The cost of all turns of a user grows with the number of the user's sessions; that of finished ones in an app that has
        few, with the turns that are passed over.
        """
        given: dict[str, object] = {"limit": wanted.limit}
        if wanted.before is not None:
            given["begun_s"], given["invocation_id"] = wanted.before
        query = partial(queries.turn_list, status=wanted.status, paged=wanted.before is not None)
        if wanted.session is not None:
            rows = self._of.rows(SessionKey(wanted.app, wanted.user or "", wanted.session), query("session"), **given)
        elif wanted.user is not None:
            rows = self._rows(query("user"), app=wanted.app, user=wanted.user, **given)
        else:
            rows = self._rows(query("app"), app=wanted.app, **given)
        return [(SessionKey(row.app, row.user, row.session), _turn_row(row)) for row in rows]

    def count_turns(self, app: str, status: Literal["running", "paused"]) -> int:
        """Count the turns of the app that have a status and were not rewound. The cost grows with such turns only."""
        [(count,)] = self._rows(queries.COUNTED_TURNS, app=app, status=status)
        return int(count)

    def open_versions(self, app: str) -> list[str]:
        """The versions of turns of the app that run or are paused. The cost grows with such turns only."""
        rows = [row for status in ("running", "paused") for row in self._rows(queries.OPEN_VERSIONS, app=app, status=status)]
        return sorted({row.version for row in rows})

    def usage(self, wanted: UsageFilter, after: UsagePlace | None = None) -> UsagePage:
        """The sums of turns: those of a user, a session or one turn at once, all others in pages, the oldest first."""
        app, user, session, since_s = wanted.app, wanted.user, wanted.session, wanted.since_s
        if session is not None:
            of_session = partial(self._of.tuples, SessionKey(app, user or "", session), since_s=since_s)
            if not wanted.invocation_id:
                return usage_page(of_session, "session", wanted.groups, None)
            return usage_page(partial(of_session, invocation_id=wanted.invocation_id), "turn", wanted.groups, None)
        if user is not None:
            return usage_page(partial(self._tuples, app=app, user=user, since_s=since_s), "user", wanted.groups, None)
        return usage_page(partial(self._tuples, app=app, since_s=since_s), "app", wanted.groups, after)

    def turn_names(self, ids: Sequence[TurnId]) -> Mapping[TurnId, TurnName]:
        """The names of turns of a page of usage."""
        return turn_names(self._tuples, ids)

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """All turns of the app with the status running that were not rewound. The cost grows with these only."""
        rows = self._rows(queries.RUNNING_TURNS, app=app)
        return [(SessionKey(row.app, row.user, row.session), _turn_row(row)) for row in rows]

    def running_turn(self, key: SessionKey) -> TurnRow | None:
        """The turn of the session that has not ended, or None."""
        found = self._of.rows(key, queries.RUNNING_TURN)
        return _turn_row(found[0]) if found else None

    def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The distinct authors of the visible events before a seq, most recent first. Costs a pass over the log."""
        found = self._of.rows(key, queries.AUTHORS_BEFORE, before_seq=before_seq)
        return [row.author for row in found]

    def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The seq and the invocation id of the visible event with that id, or None."""
        found = self._of.rows(key, queries.PLACE, id=event_id)
        return (found[0].seq, found[0].invocation_id) if found else None

    def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        """The newest visible function call with that id, or None."""
        found = self._of.rows(key, queries.CALL, call_id=call_id)
        return CallRow(**found[0]._mapping) if found else None

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        """Sessions to which nothing was written from a time on, without any whose turn is open or paused, the oldest first."""
        place = {} if after is None else {f"after_{name}": at for name, at in after._asdict().items()}
        of_user: dict[str, object] = {} if user is None else {"user": user}
        query = queries.old_sessions(of_user=user is not None, after_another=after is not None)
        return _old_sessions(self._rows(query, app=app, before_s=before_s, limit=limit, **of_user, **place))

    def removals(self, app: str, user: str | None) -> list[OldSession]:
        """The sessions that were pruned, and whose artifacts may still be there."""
        of_user: dict[str, object] = {} if user is None else {"user": user}
        return _old_sessions(self._rows(queries.removal_list(of_user=user is not None), app=app, **of_user))

    def long_sessions(
        self, app: str, user: str | None, more_than: int, *, limit: int, after: SessionKey | None = None
    ) -> list[SessionKey]:
        """The sessions whose logs have more than so many events, by user and id."""
        place = {} if after is None else {"after_user": after.user, "after_session": after.session}
        of_user: dict[str, object] = {} if user is None else {"user": user}
        query = queries.long_sessions(of_user=user is not None, after_another=after is not None)
        found = self._rows(query, app=app, more_than=more_than, limit=limit, **of_user, **place)
        return [SessionKey(app, *row) for row in found]

    def archivable(self, key: SessionKey, before_s: float, *, keep: int, after_seq: int = 0) -> list[int]:
        """The positions of the next events that can be archived, as many as one transaction should move."""
        rows = self._of.rows(key, queries.NEXT_EVENTS, keep=keep, after_seq=after_seq, limit=MOVED_EVENTS)
        found: list[int] = []
        size = 0
        for row in rows:
            size += row.size
            if row.timestamp >= before_s or (found and size > MOVED_BYTES):
                break
            found.append(row.seq)
        return found

    def schedule(self, app: str, user: str, name: str) -> ScheduleRow | None:
        """The schedule of a user with a name, or None."""
        found = self._rows(of_schedules.SCHEDULE, app=app, user=user, name=name)
        return schedule_row(found[0]) if found else None

    def schedules(
        self, app: str, user: str | None, *, limit: int | None = None, after: tuple[str, str] | None = None
    ) -> list[ScheduleRow]:
        """The schedules of a user, or with None of all users of the app, by user and name."""
        if user is not None and after is not None and after[0] != user:
            if after[0] > user:
                return []
            after = None
        of_user: dict[str, object] = {} if user is None else {"user": user}
        place = {} if after is None else {"after_name": after[1]} if of_user else {"after_user": after[0], "after_name": after[1]}
        query = of_schedules.schedule_list(of_user=user is not None, after_another=after is not None)
        rows = self._rows(query, app=app, limit=limit if limit is not None else MAX_ROWS, **of_user, **place)
        return [schedule_row(row) for row in rows]

    def schedules_named(self, app: str, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], ScheduleRow]:
        """Those of some schedules that are there, by user and name: see `SessionStore.schedules_named`."""
        found = self._database.found(of_schedules.NAMED, [(app, user, name) for user, name in places])
        rows = [schedule_row(_ScheduleColumns(*row)) for row in found]
        return {(row.key.user, row.name): row for row in rows}

    def next_schedules(self, app: str, *, limit: int, after: DuePlace | None = None) -> list[ScheduleRow]:
        """The schedules of an app that have a due time, the first one first. The cost does not grow with the later ones."""
        place = {} if after is None else {f"after_{name}": at for name, at in after._asdict().items()}
        query = of_schedules.next_schedules(after_another=after is not None)
        return [schedule_row(row) for row in self._rows(query, app=app, limit=limit, **place)]

    def model_calls(
        self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None = None, limit: int
    ) -> list[ModelCallRow]:
        """The recorded model calls of a turn, oldest first."""
        place = {} if after is None else {"after_s": after[0], "after_id": after[1]}
        query = of_calls.CALLS if after is None else of_calls.CALLS_AFTER
        return [model_call_row(row) for row in self._of.rows(key, query, invocation_id=invocation_id, limit=limit, **place)]

    def model_call_parts(self, key: SessionKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those parts of recorded requests that are there, by digest."""
        rows = [row for some in pages(digests) for row in self._of.rows(key, of_calls.PARTS, digests=some)]
        return {bytes(row.digest): bytes(row.raw) for row in rows}

    def sessions_with_old_calls(self, app: str, before_s: float, *, limit: int) -> list[SessionKey]:
        """Sessions with model calls that were recorded before a time. The cost grows with such calls only."""
        rows = self._rows(of_calls.SESSIONS_WITH_OLD, app=app, before_s=before_s, limit=limit)
        return [SessionKey(app, *row) for row in rows]

    def batches(self, app: str, batch_id: str = "", *, limit: int) -> list[BatchInfo]:
        """Batches of an app, newest first."""
        named = {"id": batch_id} if batch_id else {}
        query = of_batches.batch_list(of_id=bool(batch_id))
        return [to_batch(bytes(raw)) for (raw,) in self._rows(query, app=app, limit=limit, **named)]

    def batch_items(self, app: str, batch_id: str, *, after: int, limit: int) -> list[BatchItem]:
        """The items that are kept of a batch, by position."""
        rows = self._rows(of_batches.ITEMS, app=app, batch=batch_id, after=after, limit=limit)
        return [to_item(bytes(raw)) for (raw,) in rows]

    def _forget_sids(self) -> None:
        self._of.forget_sids()

    def close(self) -> None:
        """Close the connection and its file. Closing twice is no error."""
        self._of.forget_sids()
        super().close()

    def _rows(self, query: Any, **parameters: Any) -> Rows:
        return self._database.rows(query, parameters)

    def _tuples(self, query: Select[Any], **parameters: Any) -> Tuples:
        return self._database.tuples(query, parameters)


def session_row(row: Any, authors: tuple[tuple[str, int], ...], state: JsonObject) -> SessionRow:
    """The record of a session, of a row with its columns by their names."""
    return SessionRow(
        key=SessionKey(row.app, row.user, row.session),
        head_seq=row.head_seq,
        rewinds=row.rewinds,
        authors=authors,
        state=state,
        created_s=row.created_s,
        updated_s=row.updated_s,
    )


def columns_of(key: SessionKey) -> dict[str, Any]:
    """The parameters of queries that name a session."""
    return {"app": key.app, "user": key.user, "session": key.session}


def values_of(rows: Sequence[Sequence[Any]]) -> JsonObject:
    """A state, of rows with its keys and values."""
    return {name: msgspec.msgpack.decode(value) for name, value in rows}


def _old_sessions(rows: Rows) -> list[OldSession]:
    return [
        OldSession(SessionKey(app, user, session), updated_s, events, turns)
        for app, user, session, updated_s, events, turns in rows
    ]


def _turn_row(row: Row[*tuple[Any, ...]]) -> TurnRow:
    return TurnRow(**{name: row._mapping[name] for name in TurnRow.__struct_fields__})
