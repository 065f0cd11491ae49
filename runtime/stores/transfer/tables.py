"""All tables of a session store and the memory beside it, read row by row and written as a whole.

Rules of this file:

- A reader sees one state of each database, however long it reads. Sessions and memory may be two databases; memory can be made
  again from the logs.
- A writer takes empty tables only, and everything or nothing becomes visible in them.
- Rows keep their keys. What a database derives from a row, such as an index of words, is derived again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select, text, tuple_

from actors.errors import StoreError
from runtime.stores import memory
from runtime.stores.memory import url_beside
from runtime.stores.sql import schema
from runtime.stores.sql.database import Database
from runtime.stores.sql.owners import refuse_if_in_use

Row = dict[str, Any]
"""Values by column."""

PAGE = 100
"""Rows that are read and written at a time: an event may have megabytes."""

MEMORY = "memory"
"""The name of the table of memory."""

_SESSION_TABLES = {
    table.name.removeprefix("raygrove_"): table
    for table in (
        schema.sessions,
        schema.events,
        schema.authors,
        schema.calls,
        schema.turns,
        schema.session_state,
        schema.shared_state,
        schema.removals,
        schema.archive,
        schema.schedules,
        schema.model_calls,
        schema.model_call_parts,
        schema.batches,
        schema.batch_items,
        schema.seats,
        schema.placements,
        schema.arrivals,
    )
}

TABLES: Mapping[str, Sequence[str]] = {
    **{name: tuple(table.columns.keys()) for name, table in _SESSION_TABLES.items()},
    MEMORY: tuple(column.name for column in memory.entries.columns if column.name != "words"),
}
"""The columns of each table, in the order in which tables are read and written."""

VERSIONS: Mapping[str, int] = {"sessions": schema.VERSION, "memory": memory.VERSION}
"""The schema versions of both stores."""


class WholeStore:
    """A session store and the memory store beside it.

    Args:
        sessions: the URL of the session store.
        memory: the URL of the memory store; None: beside the session store.

    Raises:
        StoreError: a URL is of no known kind.
    """

    def __init__(self, sessions: str, memory: str | None = None) -> None:
        memory = memory or url_beside(sessions)
        self._sessions = Database(sessions)
        # One transaction covers both where both are in one database.
        self._memory = self._sessions if memory == sessions else Database(memory, "memory store")

    def __str__(self) -> str:
        return str(self._sessions)

    @property
    def databases(self) -> Sequence[Database]:
        """The databases, one or two."""
        return (self._sessions,) if self._memory is self._sessions else (self._sessions, self._memory)

    @contextmanager
    def read(self, instead: str = "") -> Iterator[Iterator[tuple[str, Row]]]:
        """All rows, each with the name of its table, in the order of TABLES. A SQLite file that is missing is not made.

        Args:
            instead: what to do if the store is in use; "" reads it all the same.

        Raises:
            StoreError: there is no such store, or it is in use, or it failed.
        """
        path = self._sessions.path
        if path is not None and not path.is_file():
            raise StoreError(f"there is no {self}")
        with ExitStack() as stack:
            memory_path = self._memory.path
            without_memory = memory_path is not None and not memory_path.is_file()
            databases = (self._sessions,) if without_memory else self.databases
            connections = self._opened(stack, databases, instead, snapshot=True)
            yield self._rows(connections)

    def _rows(self, connections: Mapping[Database, Connection]) -> Iterator[tuple[str, Row]]:
        for name in TABLES:
            database = self._database(name)
            if database not in connections:
                continue
            for row in _guarded(database, _read_table(connections[database], name)):
                yield name, row

    def write(self, rows: Iterable[tuple[str, Row]]) -> Counter[str]:
        """Store all rows, or none. Returns how many rows of each table.

        Args:
            rows: in the order of TABLES.

        Raises:
            StoreError: the store is in use, or has something in it, or failed.
        """
        with ExitStack() as stack:
            connections = self._opened(stack, self.databases, "stop the app that uses it", snapshot=False)
            for name in TABLES:
                if _count(connections[self._database(name)], name):
                    raise StoreError(f"{self._database(name)} has {name} in it already: use a new store")
            written = self._insert(connections, rows)
            for name in TABLES:
                found = _count(connections[self._database(name)], name)
                if found != written[name]:
                    raise StoreError(f"{self._database(name)} has {found} rows of {name} in place of {written[name]}")
            for database, connection in connections.items():
                if not database.is_sqlite:
                    _advance_sequences(connection)
            return written

    def _insert(self, connections: Mapping[Database, Connection], rows: Iterable[tuple[str, Row]]) -> Counter[str]:
        written: Counter[str] = Counter()
        batch: list[Row] = []
        of = ""

        def flush() -> None:
            if batch:
                database = self._database(of)
                with database.store_errors():
                    _write_table(connections[database], of, batch)
                written[of] += len(batch)
                batch.clear()

        for name, row in rows:
            if name != of or len(batch) == PAGE:
                flush()
                of = name
            batch.append(row)
        flush()
        return written

    def _opened(
        self, stack: ExitStack, databases: Sequence[Database], instead: str, *, snapshot: bool
    ) -> dict[Database, Connection]:
        """Open the databases, and begin a transaction in each, which ends with the stack: that of the session store last."""
        connections = {}
        for database in databases:
            stack.callback(database.close)
            with database.store_errors():
                database.open()
                if instead:
                    refuse_if_in_use(database, instead)
                with database.transaction() as transaction:
                    self._prepare(database, transaction.connection)
                if snapshot:
                    connections[database] = stack.enter_context(database.snapshot())
                else:
                    connections[database] = stack.enter_context(database.transaction()).connection
        return connections

    def _prepare(self, database: Database, connection: Connection) -> None:
        if database is self._sessions:
            schema.prepare(connection)
        if database is self._memory:
            memory.prepare(connection)

    def _database(self, table: str) -> Database:
        return self._memory if table == MEMORY else self._sessions


def _table(name: str) -> Table:
    return memory.entries if name == MEMORY else _SESSION_TABLES[name]


def _read_table(connection: Connection, name: str) -> Iterator[Row]:
    table, columns = _table(name), TABLES[name]
    key = schema.key_columns(table)
    query = select(*(table.c[column] for column in columns)).order_by(*key).limit(PAGE)
    page = connection.execute(query).fetchall()
    while page:
        for row in page:
            yield dict(zip(columns, row, strict=True))
        last = [page[-1]._mapping[column.name] for column in key]
        page = connection.execute(query.where(tuple_(*key) > tuple_(*last))).fetchall()


def _write_table(connection: Connection, name: str, rows: Sequence[Row]) -> None:
    if name == MEMORY:
        memory.restore(connection, rows)
    else:
        connection.execute(insert(_table(name)), rows)


def _count(connection: Connection, name: str) -> int:
    return connection.execute(select(func.count()).select_from(_table(name))).scalar_one()


def _advance_sequences(connection: Connection) -> None:
    """Have PostgreSQL choose keys after those that were given."""
    for table, column in ((schema.sessions, "sid"), (memory.entries, "id")):
        highest = f"SELECT max({column}) FROM {table.name}"
        if connection.execute(text(highest)).scalar_one() is not None:
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column}'), ({highest}))"))


def _guarded(database: Database, rows: Iterator[Row]) -> Iterator[Row]:
    with database.store_errors():
        yield from rows


def copy_store(source: WholeStore, target: WholeStore) -> Counter[str]:
    """Copy everything, or nothing. Returns how many rows of each table.

    Raises:
        StoreError: one of the stores is in use or failed, or there is something in the target.
    """
    with source.read("stop the app, or what it stores from now on will be missing in the copy") as rows:
        read: Counter[str] = Counter()

        def counted() -> Iterator[tuple[str, Row]]:
            for name, row in rows:
                read[name] += 1
                yield name, row

        written = target.write(counted())
        if written != read:
            raise StoreError(f"{target} got {written.total()} rows of {read.total()}")
        return written
