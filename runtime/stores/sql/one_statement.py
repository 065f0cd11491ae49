"""A commit as one statement: it checks and counts the claim, puts the rows of all writes, and commits, in one round trip.

Rules of this file:

- Every part of the statement reads `claim`, which finds a row only if the claim holds. So all is done or nothing, and nothing is
  written before the claim's row is locked.
- The server begins when it has all of the statement. So a client that is lost on the way leaves nothing locked.
- Where anything is not as expected, nothing is stored, and the commit is done again step by step, by `Batch`: that finds out what
  is wrong, and does what one statement cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Table
from sqlalchemy.exc import DataError, IntegrityError

from actors.interfaces.stores import AddEvent, CreateSession, PutState, PutTurn, Write
from actors.layers.stores.records import AddModelCall, AddSchedule, AdvanceSchedule
from actors.messages.session import SessionKey
from runtime.stores.sql import schema
from runtime.stores.sql.collected_rows import (
    EVENT_COLUMNS,
    TURN_COLUMNS,
    UPDATED_COLUMNS,
    CollectedRows,
    author_rows,
    new_versions,
    state_rows,
)
from runtime.stores.sql.database import Database
from runtime.stores.sql.postgres.arrays import OneText, Value, array_of
from runtime.stores.sql.postgres.prepared import PreparedStatements
from runtime.stores.sql.session_rows import SessionRows
from runtime.stores.sql.statements import Row, Values
from runtime.stores.sql.writers import WriterClaim

_OWNER = (schema.shared_state.c.app, schema.shared_state.c.user)

RESERVED = 64
"""Sids that are taken from the server at a time: a new session then takes no round trip of its own."""

_RESERVE = "SELECT nextval(pg_get_serial_sequence('raygrove_sessions', 'sid')) FROM generate_series(1, %s)"
_FIND = (
    "SELECT given.number, found.sid FROM unnest(%s, %s, %s) WITH ORDINALITY AS given (app, user_id, session, number) "
    'JOIN raygrove_sessions AS found ON found.app = given.app AND found."user" = given.user_id AND found.session = given.session'
)
_CHECK = (
    "SELECT 1 / CASE WHEN sum(octet_length(there.key) + octet_length(there.value)) > %s THEN 0 ELSE 1 END "
    "FROM unnest(%s, %s) AS given (app, user_id) "
    'JOIN raygrove_shared_state AS there ON there.app = given.app AND there."user" = given.user_id '
    "GROUP BY given.app, given.user_id"
)
_TOO_LARGE = "22012"
"""The SQLSTATE of a division by zero."""

_CLAIM = "claim AS (UPDATE raygrove_writers SET holder = %s WHERE writer = %s AND holder = %s RETURNING 1)"
_NO_CLAIM = "claim AS (SELECT 1)"


_IS_DUE = " AND ".join(
    [*(f'there."{column}" = given."{column}"' for column in ("app", "user", "name", "id")), "there.due_s <= given.last_s"]
)
_OF_SCHEDULES = (AddSchedule, AdvanceSchedule)
_SIMPLE = frozenset({CreateSession, AddEvent, PutTurn, PutState, AddModelCall, AddSchedule})


class _NotAtOnceError(Exception):
    """Something has to be found out, or done, step by step."""


class OneStatementCommits:
    """The commits of a store to PostgreSQL that may be one statement.

    Args:
        max_shared_bytes: see `Batch`.
    """

    def __init__(self, database: Database, sessions: SessionRows, max_shared_bytes: int | None) -> None:
        self._database = database
        self._sessions = sessions
        self._max_shared_bytes = max_shared_bytes
        self._reserved: list[int] = []
        self._reserved_by = 0
        self._prepared = PreparedStatements()

    def commit(self, writes: Sequence[Write], claim: WriterClaim | None) -> bool:
        """Do all writes, or none: False when they have to be done step by step.

        Raises:
            NotEncodableError: a value of the state cannot be encoded.
            sqlalchemy.exc.DBAPIError: the database failed. Nothing is stored, unless the connection broke: then all may be.
        """
        if not all(map(_may_be_at_once, writes)):
            return False
        try:
            with self._database.driver() as driver:
                rows = self._collected(driver, writes)
                if None in rows.shared.values():
                    return False
                sql, values = _statement(rows, is_claimed=claim is not None)
                counted = map(OneText, claim.next_count()) if claim is not None else ()
                is_done = self._run(driver, sql, [*counted, *values], rows)
        except (_NotAtOnceError, IntegrityError):
            return False
        except DataError as error:
            if getattr(error.orig, "sqlstate", None) != _TOO_LARGE:
                raise
            return False
        if is_done and claim is not None:
            claim.note_done()
        return is_done

    def _run(self, driver: Any, sql: str, values: Sequence[Value], rows: CollectedRows) -> bool:
        """Whether the commit has found its claim. With a check of states that sessions share it is one transaction, too."""
        if not rows.shared or self._max_shared_bytes is None:
            return self._prepared.rows(driver, sql, values) > 0
        owners = sorted({(app, user) for app, user, _ in rows.shared})
        of_app, of_user = (array_of(column.type)(names) for column, names in zip(_OWNER, zip(*owners, strict=True), strict=True))
        # The statement does not see what it writes, nor what other writers have written while it waited for them. The one behind
        # it does, and undoes both if it fails: the server commits at the end of what it gets in one go.
        with driver.pipeline():
            done = driver.execute(sql, values, prepare=True, binary=True)
            driver.execute(_CHECK, [self._max_shared_bytes, of_app, of_user], prepare=True)
        return done.fetchone() is not None

    def _collected(self, driver: Any, writes: Sequence[Write]) -> CollectedRows:
        created = [write.key for write in writes if isinstance(write, CreateSession)]
        # With the sids of what may be another copy of the database than the last connection had.
        sids = self._sessions.sids()
        if len(set(created)) < len(created) or any(key in sids for key in created):
            raise _NotAtOnceError
        self._find(
            driver, {write.key for write in writes if write.key.session and not isinstance(write, _OF_SCHEDULES)} - set(created)
        )
        new_sids = iter(self._reserve(driver, len(created)))

        def sid_of(key: SessionKey) -> int:
            if (sid := sids.get(key)) is None:
                raise _NotAtOnceError
            return sid

        changed = [(write.key.app, write.key.user, _name_of(write)) for write in writes if isinstance(write, _OF_SCHEDULES)]
        if len(set(changed)) < len(changed):
            # The statement sees of each schedule what was there before.
            raise _NotAtOnceError
        rows = CollectedRows(sid_of)
        for write in writes:
            match write:
                case CreateSession():
                    sids[write.key] = sid = next(new_sids)
                    rows.create_session(write, sid)
                case AddEvent():
                    rows.add_event(write)
                case AddModelCall():
                    rows.add_model_call(write)
                case PutTurn():
                    rows.put_turn(write)
                case PutState():
                    rows.put_state(write)
                case AddSchedule():
                    rows.add_schedule(write)
                case AdvanceSchedule():
                    rows.advance_schedule(write)
        return rows

    def _find(self, driver: Any, keys: set[SessionKey]) -> None:
        """Look up the sids that are not known."""
        sids = self._sessions.sids()
        unknown = [key for key in keys if key not in sids]
        if not unknown:
            return
        text = array_of(schema.sessions.c.app.type)
        columns = [text([getattr(key, name) for key in unknown]) for name in ("app", "user", "session")]
        for number, sid in driver.execute(_FIND, columns, binary=True).fetchall():
            sids[unknown[number - 1]] = sid

    def _reserve(self, driver: Any, count: int) -> list[int]:
        """Sids that no session has."""
        if self._reserved_by != self._database.connections:
            # An older copy of the database gives them once more.
            self._reserved, self._reserved_by = [], self._database.connections
        if count > len(self._reserved):
            more = max(RESERVED, count - len(self._reserved))
            self._reserved += [sid for (sid,) in driver.execute(_RESERVE, [more], binary=True).fetchall()]
        taken, self._reserved = self._reserved[:count], self._reserved[count:]
        return taken


def _may_be_at_once(write: Write) -> bool:
    return type(write) in _SIMPLE or (isinstance(write, AdvanceSchedule) and not write.error)


def _name_of(write: AddSchedule | AdvanceSchedule) -> str:
    return write.row.name if isinstance(write, AddSchedule) else write.time.name


class _Part(NamedTuple):
    """A part of the statement, which takes rows of a table.

    Attributes:
        columns: of the rows that it takes.
    """

    table: Table
    columns: tuple[str, ...]
    sql: Callable[[_Part, str], str]


def _names(columns: Sequence[str], of: str = "") -> str:
    return ", ".join(f'{of}"{column}"' for column in columns)


def _insert(part: _Part, given: str) -> str:
    return f"INSERT INTO {part.table.name} ({_names(part.columns)}) SELECT {_names(part.columns, 'given.')} FROM {given}"


def _insert_new(part: _Part, given: str) -> str:
    return f"{_insert(part, given)} ON CONFLICT DO NOTHING"


def _upsert(part: _Part, given: str) -> str:
    name = part.table.name
    key = [column.name for column in part.table.primary_key]
    fixed = {column.name for column in part.table.columns if column.info.get(schema.FIXED)}
    # A turn that ends began as its record says. One that runs may have the id of one that was rewound.
    changes = [
        f'"{column}" = '
        + (f"CASE WHEN excluded.status = 'running' THEN excluded.{column} ELSE {name}.{column} END" if column in fixed else "")
        + (f'excluded."{column}"' if column not in fixed else "")
        for column in part.columns
        if column not in key
    ]
    return f"{_insert(part, given)} ON CONFLICT ({_names(key)}) DO UPDATE SET {', '.join(changes)}"


def _change_version(part: _Part, given: str) -> str:
    change = f"ON CONFLICT ({_names(('app', 'user'))}) DO UPDATE SET version = {part.table.name}.version + 1"
    # In the order of their owners, so that two writers of the same states cannot deadlock.
    return f'{_insert(part, given)} ORDER BY given.app COLLATE "C", given."user" COLLATE "C" {change} RETURNING app, "user"'


def _update(part: _Part, given: str) -> str:
    key, *columns = part.columns
    changes = ", ".join(f'"{column}" = given."{column}"' for column in columns)
    return f"UPDATE {part.table.name} AS there SET {changes} FROM {given} WHERE there.{key} = given.{key}"


def _delete(part: _Part, given: str) -> str:
    matches = " AND ".join(f'there."{column}" = given."{column}"' for column in part.columns)
    return f"DELETE FROM {part.table.name} AS there USING {given} WHERE {matches}"


def _go_on(part: _Part, given: str) -> str:
    changes = "due_s = given.due_s, last_s = given.last_s, turns = there.turns + 1, error = ''"
    return f"UPDATE {part.table.name} AS there SET {changes} FROM {given} WHERE {_IS_DUE}"


def _end(part: _Part, given: str) -> str:
    return f"DELETE FROM {part.table.name} AS there USING {given} WHERE {_IS_DUE}"


def _all(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.name != "hidden")


_PARTS = {
    "created": _Part(schema.sessions, _all(schema.sessions), _insert),
    "events": _Part(schema.events, EVENT_COLUMNS, _insert),
    "authors": _Part(schema.authors, _all(schema.authors), _upsert),
    "calls": _Part(schema.calls, _all(schema.calls), _insert),
    "model_calls": _Part(schema.model_calls, _all(schema.model_calls), _insert_new),
    "model_call_parts": _Part(schema.model_call_parts, _all(schema.model_call_parts), _insert_new),
    "turns": _Part(schema.turns, TURN_COLUMNS, _upsert),
    "updated": _Part(schema.sessions, UPDATED_COLUMNS, _update),
    "own": _Part(schema.session_state, ("sid", "key", "value"), _upsert),
    "own_removed": _Part(schema.session_state, ("sid", "key"), _delete),
    "versions": _Part(schema.shared_versions, _all(schema.shared_versions), _change_version),
    "shared": _Part(schema.shared_state, ("app", "user", "key", "value"), _upsert),
    "schedules": _Part(schema.schedules, _all(schema.schedules), _insert_new),
    "schedules_on": _Part(schema.schedules, ("app", "user", "name", "id", "last_s", "due_s"), _go_on),
    "schedules_over": _Part(schema.schedules, ("app", "user", "name", "id", "last_s"), _end),
}

_IN_ORDER = frozenset({"events", "turns", "updated"})
"""Parts whose rows are values in the order of the columns."""


def _statement(rows: CollectedRows, *, is_claimed: bool) -> tuple[str, list[Value]]:
    """The SQL of a commit, and its values after those of the claim."""
    by_part = {name: given for name, given in _by_part(rows).items() if given}
    values: list[Value] = []
    for name, given in by_part.items():
        values_of, arrays = _columns(name)
        in_order: Iterable[Values] = map(values_of, given)
        values += [array(column) for array, column in zip(arrays, zip(*in_order, strict=True), strict=True)]
    return _sql(tuple(by_part), is_claimed), values


@cache
def _columns(name: str) -> tuple[Callable[[Any], Values], Sequence[Callable[[Sequence[Any]], Value]]]:
    """Functions of a part: one takes the values of its columns from a row, the others make an array of each column."""
    part = _PARTS[name]
    values_of: Callable[[Any], Values] = tuple if name in _IN_ORDER else itemgetter(*part.columns)
    return values_of, [array_of(part.table.c[column].type) for column in part.columns]


def _by_part(rows: CollectedRows) -> dict[str, Sequence[Row] | Sequence[Values]]:
    updated = dict(rows.updated)
    for row in rows.created:
        # The statement does not see its own rows.
        row["updated_s"] = updated.pop(row["sid"], row["updated_s"])
    own, own_removed = state_rows(rows.own, ("sid", "key"))
    shared, _ = state_rows(rows.shared, ("app", "user", "key"))
    return {
        "created": rows.created,
        "events": rows.events,
        "authors": author_rows(rows),
        "calls": rows.calls,
        "model_calls": rows.model_calls,
        "model_call_parts": rows.model_call_parts,
        "turns": list(rows.turns.values()),
        "updated": list(updated.items()),
        "own": own,
        "own_removed": own_removed,
        "versions": new_versions(rows.shared),
        "shared": shared,
        "schedules": rows.schedules,
        "schedules_on": rows.schedules_on,
        "schedules_over": rows.schedules_over,
    }


@cache
def _sql(names: tuple[str, ...], is_claimed: bool) -> str:
    """The SQL of a commit that has such rows."""
    parts = [_CLAIM if is_claimed else _NO_CLAIM]
    for name in names:
        part = _PARTS[name]
        given = f"unnest({', '.join(['%s'] * len(part.columns))}) AS given ({_names(part.columns)})"
        # One writer at a time has the version of a state, which it takes before it touches the state.
        after = f'versions JOIN {given} USING (app, "user")' if name == "shared" else f"claim, {given}"
        parts.append(f"{name} AS ({part.sql(part, after)})")
    return f"WITH {', '.join(parts)} SELECT 1 FROM claim"
