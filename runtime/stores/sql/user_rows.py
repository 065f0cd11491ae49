"""All rows of one user: read in parts, removed, and written under the numbers of another store.

Rules of this file:

- Each table of a session store stands in one of the four lists below, so that none is forgotten when a user is moved.
- Rows keep all their values but the number of their session, which each store chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, select, tuple_

from actors.messages import codec
from runtime.stores.sql import schema
from runtime.stores.sql.authors import derive_authors
from runtime.stores.sql.database import Rows

OF_SESSIONS: Sequence[Table] = (
    schema.events,
    schema.archive,
    schema.calls,
    schema.turns,
    schema.session_state,
    schema.model_calls,
    schema.model_call_parts,
)
"""Tables with rows of sessions, by the session's number."""

DERIVED: Sequence[Table] = (schema.authors,)
"""Derived tables: their rows are made again at the target."""

OF_USERS: Sequence[Table] = (schema.shared_state, schema.removals, schema.schedules)
"""Tables with rows of users."""

OF_STORES: Sequence[Table] = (
    schema.schema_version,
    schema.writers,
    schema.owners,
    schema.shared_versions,
    schema.seats,
    schema.placements,
    schema.arrivals,
    schema.batches,
    schema.batch_items,
)
"""Tables with rows that stay with the store, beside that of sessions: versions of a state are those of its writers there, and
batches are in the first store, with items of all users."""

PAGE = 500
"""Rows in a part."""

_TABLES: Sequence[Table] = (schema.sessions, *OF_SESSIONS, *OF_USERS)
_BY_NAME = {table.name: table for table in _TABLES}

UserRow = tuple[str, dict[str, Any]]
"""The name of a table, and values by column."""


def read_part(rows: Callable[[Any], Rows], app: str, user: str, after: bytes) -> tuple[list[UserRow], bytes]:
    """A part of a user's rows, and where the next one begins; b"" at the begin, and after the last one.

    Args:
        rows: reads the rows of a query.
    """
    number, last = codec.decode(after, tuple[int, list[Any]]) if after else (0, [])
    for at in range(number, len(_TABLES)):
        table = _TABLES[at]
        key = schema.key_columns(table)
        query = select(table).where(_of_user(table, app, user)).order_by(*key).limit(PAGE)
        if at == number and last:
            query = query.where(tuple_(*key) > tuple_(*last))
        found = [{str(column): value for column, value in row._mapping.items()} for row in rows(query)]
        if found:
            place = (at, [found[-1][column.name] for column in key])
            return [(str(table.name), row) for row in found], msgspec.msgpack.encode(place)
    return [], b""


def count_rows(connection: Connection, app: str, user: str) -> int:
    """The number of a user's rows in all tables."""
    queries = (select(func.count()).select_from(table).where(_of_user(table, app, user)) for table in _TABLES)
    return sum(connection.execute(query).scalar_one() for query in queries)


def remove_rows(connection: Connection, app: str, user: str) -> None:
    """Remove all rows of a user."""
    for table in (*OF_SESSIONS, *OF_USERS, schema.shared_versions, schema.sessions):
        connection.execute(delete(table).where(_of_user(table, app, user)))


def write_rows(connection: Connection, rows: Iterable[UserRow]) -> None:
    """Write rows as they were read, under numbers of this store. Rows of tables that no session store has are left out."""
    sids: dict[int, int] = {}
    for name, row in rows:
        table = _BY_NAME.get(name)
        if table is schema.sessions:
            values = {column: value for column, value in row.items() if column != "sid"}
            sids[row["sid"]] = connection.execute(insert(table).values(**values).returning(table.c.sid)).scalar_one()
        elif table is not None:
            connection.execute(insert(table), {**row, "sid": sids[row["sid"]]} if "sid" in row else row)
    for sid in sids.values():
        derive_authors(connection, sid)


def _of_user(table: Table, app: str, user: str) -> ColumnElement[bool]:
    if table in OF_SESSIONS:
        sessions = schema.sessions.c
        return table.c.sid.in_(select(sessions.sid).where(sessions.app == app, sessions.user == user))
    return and_(table.c.app == app, table.c.user == user)
