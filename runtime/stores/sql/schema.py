"""The tables of the session store, the same on SQLite and PostgreSQL.

Rules of this file:

- A session has a small integer, `sid`; rows of its log carry it instead of the three names of the session's key.
- No query of an ordinary turn may read a whole log. The partial index `TURNS_RUNNING` holds only the rows that are searched for,
  and which agents have spoken last stands in a table of its own: an index of events by their authors was a third of what a commit
  writes, since each session has its own page of it.
- Names begin with `raygrove_`, since a PostgreSQL database is often shared.
- Long values come last in a row: SQLite then reads the short columns without the pages of the long ones.
- In which order a key has its columns is no part of the version: all statements run on either order. To build the keys of a large
  store anew would keep its app away for minutes, so those of a store that was made before stay until it is copied into a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    create_mock_engine,
    false,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from actors.errors import SchemaVersionError, StoreError
from actors.layers.trees.version import UNKNOWN_RELEASE, this_version

VERSION = 2
"""The version of the tables below. Raise it with every change to them, and have `prepare_tables` bring older ones up to date."""

UNRELEASED = {"raygrove_schema": 22, "raygrove_memory_schema": 2}
"""The versions that the last commit before the first release gave to the tables of version 1, by the tables that tell them."""

RUNNING: ColumnElement[str] = literal_column("'running'")
"""The status of a turn that has not ended. A literal, since planners match partial indexes with literals only."""

ARCHIVED = b""
"""In place of the bytes of an event that is in the archive, and of what it overwrote if there is any. Neither is empty else."""

FIXED = "fixed"
"""Marks a column whose value does not change while a turn goes on."""

_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
_SID = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()


def version_table(name: str, metadata: MetaData) -> Table:
    """A table of one row: the version of the other tables, and the release of raygrove that has created them."""
    return Table(
        name,
        metadata,
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("program", Text, nullable=False),
    )


schema_version = version_table("raygrove_schema", metadata)

sessions = Table(
    "raygrove_sessions",
    metadata,
    Column("sid", _SID, primary_key=True),
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("session", _TEXT, nullable=False),
    Column("rewinds", Integer, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("updated_s", Double, nullable=False),
    UniqueConstraint("app", "user", "session"),
    # A sid is never used twice: a writer that still holds the sid of a removed session must not write to another session.
    sqlite_autoincrement=True,
)

# A page of a hundred thousand sessions takes a millisecond, and forty without it. It costs each write of a session another entry.
SESSIONS_BY_TIME = Index("raygrove_sessions_by_time", sessions.c.app, sessions.c.updated_s)

events = Table(
    "raygrove_events",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("invocation_id", _TEXT, nullable=False),
    Column("author", _TEXT, nullable=False),
    Column("timestamp", Double, nullable=False),
    Column("hidden", Boolean, nullable=False, server_default=false()),
    Column("undo", LargeBinary),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("sid", "seq"),
    # Ids begin with their time, so those of all sessions that are being written to stand together, and few pages change.
    UniqueConstraint("id", "sid"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)

archive = Table(
    "raygrove_archive",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("sid", "first_seq"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)

# The agents that have visible events, each with the position of one of them: after it, none but this agent has spoken before its
# last one. So only an agent that takes the floor from another is noted again.
authors = Table(
    "raygrove_authors",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("author", _TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("sid", "author"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

calls = Table(
    "raygrove_calls",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("call_id", _TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("sid", "call_id", "seq"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

turns = Table(
    "raygrove_turns",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("invocation_id", _TEXT, nullable=False),
    Column("status", _TEXT, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("opened_seq", BigInteger, nullable=False),
    Column("agent", _TEXT, nullable=False),
    Column("outcome", LargeBinary, nullable=False),
    Column("temp", LargeBinary, nullable=False),
    Column("last_seq", BigInteger, nullable=False, server_default="0"),
    # Not updated when a turn ends: an update of an indexed column would write its indexes again.
    Column("begun_s", Double, nullable=False, server_default="0", info={FIXED: True}),
    Column("ended_s", Double, nullable=False, server_default="0"),
    Column("usage", LargeBinary, nullable=False),
    Column("version", _TEXT, nullable=False, server_default=""),
    # As ids of events do those of turns begin with their time.
    PrimaryKeyConstraint("invocation_id", "sid"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)

TURNS_RUNNING = Index(
    "raygrove_turns_running",
    turns.c.sid,
    sqlite_where=turns.c.status == RUNNING,
    postgresql_where=turns.c.status == RUNNING,
)
TURNS_BY_TIME = Index("raygrove_turns_by_time", turns.c.begun_s)
TURNS_OF_SESSION = Index("raygrove_turns_of_session", turns.c.sid, turns.c.begun_s)
TURNS_BY_STATUS = [
    Index(
        f"raygrove_turns_{status}",
        turns.c.begun_s,
        sqlite_where=turns.c.status == literal_column(f"'{status}'"),
        postgresql_where=turns.c.status == literal_column(f"'{status}'"),
    )
    for status in ("paused", "failed", "cancelled")
]

session_state = Table(
    "raygrove_session_state",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("key", _TEXT, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("sid", "key"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)

shared_state = Table(
    "raygrove_shared_state",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False, comment="'' for what all users of the app share"),
    Column("key", _TEXT, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("app", "user", "key"),
)

removals = Table(
    "raygrove_removals",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("session", _TEXT, nullable=False),
    Column("updated_s", Double, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("turns", BigInteger, nullable=False),
    PrimaryKeyConstraint("app", "user", "session"),
)

# Counts the changes of each of these states, where a store takes many writers. It begins with any number, so that a state that is
# made anew gets no version that it had before.
shared_versions = Table(
    "raygrove_shared_versions",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
    PrimaryKeyConstraint("app", "user"),
)

schedules = Table(
    "raygrove_schedules",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("name", _TEXT, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("session", _TEXT, nullable=False),
    Column("due_s", BigInteger),
    Column("paused", Boolean, nullable=False),
    Column("last_s", BigInteger, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("app", "user", "name"),
)

SCHEDULES_DUE = Index(
    "raygrove_schedules_due",
    schedules.c.app,
    schedules.c.due_s,
    schedules.c.user,
    schedules.c.name,
    sqlite_where=schedules.c.due_s.is_not(None),
    postgresql_where=schedules.c.due_s.is_not(None),
)

writers = Table(
    "raygrove_writers",
    metadata,
    Column("writer", _TEXT, primary_key=True),
    Column("holder", Text, nullable=False),
    # Of the owner, so that the next one fences all of its writers.
    Column("deployment", Text, nullable=False, server_default=""),
)

model_calls = Table(
    "raygrove_model_calls",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("invocation_id", _TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("begun_s", Double, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("sid", "id"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)
Index("raygrove_model_calls_of_turn", model_calls.c.sid, model_calls.c.invocation_id)
Index("raygrove_model_calls_by_time", model_calls.c.begun_s)
model_call_parts = Table(
    "raygrove_model_call_parts",
    metadata,
    Column("sid", _SID, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("sid", "digest"),
    ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
)
"""A row for each recorded model call, and one for each part of requests in a session."""

seats = Table(
    "raygrove_seats",
    metadata,
    Column("app", _TEXT, primary_key=True),
    Column("family", _TEXT, nullable=False),
    Column("number", Integer, nullable=False),
    Column("stores", Integer, nullable=False),
)
placements = Table(
    "raygrove_placements",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="of the user, whose name is not kept"),
    Column("store", Integer, nullable=False),
    Column("token", _TEXT, comment="of the move by which the user has left; empty: by none"),
    PrimaryKeyConstraint("app", "digest"),
)
arrivals = Table(
    "raygrove_arrivals",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("number", Integer, nullable=False, comment="of the part; 0 says from which store and by which move"),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("app", "user", "number"),
)
"""A store that is one of several: its place, users that are in another one, and users that are being moved."""

batches = Table(
    "raygrove_batches",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("begun_s", Double, nullable=False),
    Column("updated_s", Double, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("app", "id"),
)
batch_items = Table(
    "raygrove_batch_items",
    metadata,
    Column("app", _TEXT, nullable=False),
    Column("batch", _TEXT, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("user", _TEXT, nullable=False, comment="'' for an item that belongs to nobody"),
    Column("at_s", Double, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    PrimaryKeyConstraint("app", "batch", "position"),
)
Index("raygrove_batch_items_of_user", batch_items.c.app, batch_items.c.user)
"""A row for each map and evaluation, and one for each item that is kept of it."""

owners = Table(
    "raygrove_owners",
    metadata,
    Column("app", _TEXT, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("until_s", Double, nullable=False),
    Column("inode", BigInteger, nullable=False, comment="of SQLite's file: a copy of it has no owner"),
    Column("owner", LargeBinary, nullable=False),
)


def key_columns(table: Table) -> list[Column[Any]]:
    """The columns of a table's primary key in the order in which pages of rows are read: session by session where it has any."""
    return [column for column in table.columns if column.primary_key]


def prepare(connection: Connection) -> None:
    """Create the tables, or look whether they are of this program's version.

    Raises:
        SchemaVersionError: a newer version of raygrove has created them.
        StoreError: they have turns that only an older one can end.
    """
    prepare_tables(connection, schema_version, VERSION, partial(create_tables, metadata=metadata))
    if stored_version(connection, schema_version) == 1:
        _drop_first_checkpoints(connection)


def _drop_first_checkpoints(connection: Connection) -> None:
    """Drop what the records of turns that are over carry in the form of version 1. Raises StoreError for any other turn."""
    has_one = turns.c.temp != b""
    wanted = select(turns.c.invocation_id).where(has_one, turns.c.status.in_(("running", "paused"))).limit(1)
    if (open_turn := connection.execute(wanted).scalar()) is not None:
        raise StoreError(
            f"the store has turns that are not over, such as {open_turn!r}, in a form that this program does not read: end them "
            "with the program that has stored them, or use another store"
        )
    connection.execute(update(turns).where(has_one).values(temp=b""))
    connection.execute(update(schema_version).values(version=VERSION))


def prepare_tables(connection: Connection, schema_version: Table, known: int, create: Callable[[Connection], None]) -> None:
    """Create tables, or look whether existing ones are of the version that this program knows.

    The caller begins and ends the transaction.

    Args:
        schema_version: the table with the version of the others: see `version_table`.
        known: the version that this program knows.

    Raises:
        SchemaVersionError: a newer version of raygrove has created the tables; nothing was changed.
    """
    if connection.dialect.name == "postgresql":
        # Two processes that both see no tables would both create them. The lock ends with the transaction.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": schema_version.name})
    if not connection.dialect.has_table(connection, schema_version.name):
        create(connection)
        connection.execute(insert(schema_version).values(version=known, program=this_version()))
        return
    found: int = connection.execute(select(schema_version.c.version)).scalar_one()
    if found == UNRELEASED[schema_version.name]:
        connection.execute(update(schema_version).values(version=1))
    elif found > known:
        raise SchemaVersionError(found, known, _release(connection, schema_version))


def stored_version(connection: Connection, schema_version: Table) -> int:
    """The version of tables that are there; 0 if that is not known."""
    found = connection.execute(select(schema_version.c.version)).scalar_one_or_none() or 0
    return 1 if found == UNRELEASED[schema_version.name] else int(found)


def _release(connection: Connection, schema_version: Table) -> str:
    """The release that has created the tables. A later release may store it elsewhere, or not at all."""
    if not any(each["name"] == "program" for each in inspect(connection).get_columns(schema_version.name)):
        return UNKNOWN_RELEASE
    return str(connection.execute(select(schema_version.c.program)).scalar_one())


def create_tables(connection: Connection, metadata: MetaData) -> None:
    """Create all tables and indexes that are missing.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database could not do it.
    """
    if connection.dialect.name != "sqlite":
        metadata.create_all(connection)
        return
    for statement in _statements(metadata):
        connection.exec_driver_sql(statement)


@cache
def _statements(metadata: MetaData) -> tuple[str, ...]:
    # `create_all` asks for each table, and writes each statement anew: most of what it takes to open a new file.
    written: list[str] = []

    def write(statement: Any, *_: Any, **__: Any) -> None:
        if isinstance(statement, CreateTable | CreateIndex):
            statement.if_not_exists = True
        written.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("sqlite://", write)
    metadata.create_all(engine, checkfirst=False)
    return tuple(written)
