"""The session store on a SQL database: SQLite in a file by default, PostgreSQL by its URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from sqlalchemy import Connection, Row, Select
from sqlalchemy.exc import IntegrityError

from actors.errors import RaygroveError
from actors.interfaces.stores import CallRow, SessionRow, TurnFilter, TurnRow, VersionedState, Write
from actors.layers.stores.records import ModelCallRow, OldSession
from actors.layers.stores.schedule import DuePlace, ScheduleRow
from actors.layers.stores.session_store import SessionStore
from actors.layers.stores.usage import TurnId, TurnName, UsageFilter, UsagePage, UsagePlace
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey, SessionPlace
from runtime.stores.sql import queries, schema, sqlite_rows
from runtime.stores.sql import schedules as of_schedules
from runtime.stores.sql.archive import ArchiveReader
from runtime.stores.sql.batch import Batch
from runtime.stores.sql.conflicts import find_conflict
from runtime.stores.sql.database import LOCK_TIMEOUT_S, Database, Rows, Tuples
from runtime.stores.sql.kept_batches import BatchReadingStore
from runtime.stores.sql.model_calls import ModelCallReader
from runtime.stores.sql.placing import PlacedSqlStore
from runtime.stores.sql.schedules import schedule_row
from runtime.stores.sql.session_rows import SessionRows, session_row, values_of
from runtime.stores.sql.usage import turn_names, usage_page

if TYPE_CHECKING:
    from runtime.stores.sql.one_statement import OneStatementCommits

MAX_ROWS = 2**62
"""Rows of a list that has no limit."""

MOVED_EVENTS = 512
"""Events that one transaction moves into the archive, at most."""

MOVED_BYTES = 512_000
"""Their bytes, unless a single event has more: to compress them takes some ten milliseconds."""

MAX_VALUES = 500
"""Values in one list of a statement."""


class SqlSessionStore(PlacedSqlStore, BatchReadingStore, SessionStore):
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
        self._model_calls = ModelCallReader(self._of.rows, self._rows)
        self._at_once: OneStatementCommits | None = None
        self._versions_of = 0

    def _prepare(self, connection: Connection) -> None:
        if not self._database.is_sqlite:
            # Its driver is an extra.
            from runtime.stores.sql.one_statement import OneStatementCommits

            self._at_once = OneStatementCommits(self._database, self._of, self._max_shared_bytes)
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
            if self._at_once is None or not self._at_once.commit(writes, self._claim):
                self._commit(lambda connection: Batch(connection, self._of.sids(), self._max_shared_bytes).write(writes))
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
        if self._database.is_sqlite:
            return sqlite_rows.existing_sessions(self._database, keys)
        from runtime.stores.sql.postgres.grouped_rows import existing_sessions

        with self._database.store_errors(), self._database.driver() as driver:
            return existing_sessions(driver, keys)

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
                row for part in _parts([row.sid for row in rows]) for row in self._rows(queries.STATES_OF_SESSIONS, sids=part)
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
        if self._database.is_sqlite:
            found = {user: VersionedState(0, {}) for user in known}
            for user, name, value in sqlite_rows.states_of_users(self._database, app, list(known)):
                found[user].values[name] = msgspec.msgpack.decode(value)
            return found
        from runtime.stores.sql.postgres.grouped_rows import changed_states

        with self._database.store_errors(), self._database.driver() as driver:
            if self._versions_of != self._database.connections:
                # An older copy of the database may come to the same versions by other changes.
                known, self._versions_of = dict.fromkeys(known, -1), self._database.connections
            return changed_states(driver, app, known)

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
        if self._database.is_sqlite:
            return {place: row for place in places if (row := self.schedule(app, *place)) is not None}
        from runtime.stores.sql.postgres.grouped_rows import schedules_named

        with self._database.store_errors(), self._database.driver() as driver:
            return {(row.key.user, row.name): row for row in schedules_named(driver, app, places)}

    def next_schedules(self, app: str, *, limit: int, after: DuePlace | None = None) -> list[ScheduleRow]:
        """The schedules of an app that have a due time, the first one first. The cost does not grow with the later ones."""
        place = {} if after is None else {f"after_{name}": at for name, at in after._asdict().items()}
        query = of_schedules.next_schedules(after_another=after is not None)
        return [schedule_row(row) for row in self._rows(query, app=app, limit=limit, **place)]

    def model_calls(
        self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None = None, limit: int
    ) -> list[ModelCallRow]:
        """The recorded model calls of a turn, oldest first."""
        return self._model_calls.calls(key, invocation_id, after=after, limit=limit)

    def model_call_parts(self, key: SessionKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those parts of recorded requests that are there, by digest."""
        return self._model_calls.parts(key, digests)

    def sessions_with_old_calls(self, app: str, before_s: float, *, limit: int) -> list[SessionKey]:
        """Sessions with model calls that were recorded before a time. The cost grows with such calls only."""
        return self._model_calls.sessions_with_old(app, before_s, limit)

    def close(self) -> None:
        """Close the connection and its file. Closing twice is no error."""
        self._of.forget_sids()
        super().close()

    def _rows(self, query: Any, **parameters: Any) -> Rows:
        return self._database.rows(query, parameters)

    def _tuples(self, query: Select[Any], **parameters: Any) -> Tuples:
        return self._database.tuples(query, parameters)


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Values in batches that fit into one statement."""
    return (values[first : first + MAX_VALUES] for first in range(0, len(values), MAX_VALUES))


def _old_sessions(rows: Rows) -> list[OldSession]:
    return [
        OldSession(SessionKey(app, user, session), updated_s, events, turns)
        for app, user, session, updated_s, events, turns in rows
    ]


def _turn_row(row: Row[*tuple[Any, ...]]) -> TurnRow:
    return TurnRow(**{name: row._mapping[name] for name in TurnRow.__struct_fields__})
