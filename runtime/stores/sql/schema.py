"""The tables of the session store, the same on SQLite and PostgreSQL.

Rules of this file:

- A session has a small integer, `sid`; rows of its log carry it instead of the three names of the session's key.
- No query of an ordinary turn may read a whole log. The partial indexes `EVENTS_BY_AUTHOR` and `TURNS_RUNNING` hold only the
  rows that are searched for.
- Names begin with `raygrove_`, since a PostgreSQL database is often shared.
- A migration has SQL of its own and is never changed later: the tables below may change, the tables that it finds do not.
- Long values come last in a row: SQLite then reads the short columns without the pages of the long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata as packages

import msgspec
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
    false,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)

from actors.errors import SchemaVersionError
from runtime.stores.sql.tables.model_calls import add_model_calls, model_call_tables

VERSION = 10
"""The version of the tables below. Raise it with every change to them, and add the migration to MIGRATIONS."""

UNKNOWN = "of an unknown version"
"""Stands for a release when raygrove runs from its sources without being installed."""

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
    """A table of one row: the version of the other tables, and the release of raygrove that has created or migrated them."""
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
    UniqueConstraint("sid", "id"),
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

EVENTS_BY_AUTHOR = Index(
    "raygrove_events_by_author",
    events.c.sid,
    events.c.author,
    events.c.seq,
    sqlite_where=events.c.hidden.is_(false()),
    postgresql_where=events.c.hidden.is_(false()),
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
    PrimaryKeyConstraint("sid", "invocation_id"),
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

writers = Table(
    "raygrove_writers",
    metadata,
    Column("writer", _TEXT, primary_key=True),
    Column("holder", Text, nullable=False),
    # Of the owner, so that the next one fences all of its writers. An older release leaves it out.
    Column("deployment", Text, nullable=False, server_default=""),
)

model_calls, model_call_parts = model_call_tables(metadata, _SID, _TEXT)

owners = Table(
    "raygrove_owners",
    metadata,
    Column("app", _TEXT, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("until_s", Double, nullable=False),
    Column("inode", BigInteger, nullable=False, comment="of SQLite's file: a copy of it has no owner"),
    Column("owner", LargeBinary, nullable=False),
)


def add_release(connection: Connection, table: str) -> None:
    """Migration from version 1: the version table gets the release."""
    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN program TEXT NOT NULL DEFAULT '{UNKNOWN}'")


def _from_version_1(connection: Connection) -> None:
    """Migration from version 1: adds the release, and puts the `temp:` state in records of paused turns in a list."""
    add_release(connection, "raygrove_schema")
    carrying = connection.execute(text("SELECT sid, invocation_id, temp FROM raygrove_turns WHERE length(temp) > 0")).fetchall()
    for sid, invocation_id, temp in carrying:
        carried = msgspec.msgpack.decode(bytes(temp))
        if isinstance(carried, dict):
            connection.execute(
                text("UPDATE raygrove_turns SET temp = :temp WHERE sid = :sid AND invocation_id = :id"),
                {"temp": msgspec.msgpack.encode([carried]), "sid": sid, "id": invocation_id},
            )


def _from_version_2(connection: Connection) -> None:
    """Migration from version 2: adds to the records of turns where and when they began and ended, and indexes to list them by."""
    real = "DOUBLE PRECISION" if connection.dialect.name == "postgresql" else "DOUBLE"
    for column, kind in (("last_seq", "BIGINT"), ("begun_s", real), ("ended_s", real)):
        connection.exec_driver_sql(f"ALTER TABLE raygrove_turns ADD COLUMN {column} {kind} NOT NULL DEFAULT 0")
    connection.exec_driver_sql(
        "UPDATE raygrove_turns SET last_seq = found.last_seq, begun_s = found.begun_s, "
        "ended_s = CASE WHEN status = 'running' THEN 0 ELSE found.ended_s END "
        "FROM (SELECT sid, invocation_id, max(seq) AS last_seq, min(timestamp) AS begun_s, max(timestamp) AS ended_s "
        "FROM raygrove_events GROUP BY sid, invocation_id) AS found "
        "WHERE found.sid = raygrove_turns.sid AND found.invocation_id = raygrove_turns.invocation_id"
    )
    connection.exec_driver_sql("CREATE INDEX raygrove_turns_by_time ON raygrove_turns (begun_s)")
    connection.exec_driver_sql("CREATE INDEX raygrove_turns_of_session ON raygrove_turns (sid, begun_s)")
    for status in ("paused", "failed", "cancelled"):
        connection.exec_driver_sql(f"CREATE INDEX raygrove_turns_{status} ON raygrove_turns (begun_s) WHERE status = '{status}'")


def _from_version_3(connection: Connection) -> None:
    """Migration from version 3: adds the writers' places."""
    kind = 'TEXT COLLATE "C"' if connection.dialect.name == "postgresql" else "TEXT"
    connection.exec_driver_sql(f"CREATE TABLE raygrove_writers (writer {kind} NOT NULL PRIMARY KEY, holder TEXT NOT NULL)")


def _from_version_4(connection: Connection) -> None:
    """Migration from version 4: adds the deployments that own the store, and names them beside their writers' places."""
    is_postgres = connection.dialect.name == "postgresql"
    text_c, real, raw = ('TEXT COLLATE "C"', "DOUBLE PRECISION", "BYTEA") if is_postgres else ("TEXT", "DOUBLE", "BLOB")
    connection.exec_driver_sql("ALTER TABLE raygrove_writers ADD COLUMN deployment TEXT NOT NULL DEFAULT ''")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_owners (app {text_c} NOT NULL PRIMARY KEY, deployment TEXT NOT NULL, until_s {real} NOT NULL, "
        f"inode BIGINT NOT NULL, owner {raw} NOT NULL)"
    )


def _from_version_5(connection: Connection) -> None:
    """Migration from version 5: adds an index to list sessions by."""
    connection.exec_driver_sql("CREATE INDEX raygrove_sessions_by_time ON raygrove_sessions (app, updated_s)")


def _from_version_6(connection: Connection) -> None:
    """Migration from version 6: adds the notes of sessions that were pruned, and whose artifacts are still there."""
    text_c, real = ('TEXT COLLATE "C"', "DOUBLE PRECISION") if connection.dialect.name == "postgresql" else ("TEXT", "DOUBLE")
    connection.exec_driver_sql(
        f'CREATE TABLE raygrove_removals (app {text_c} NOT NULL, "user" {text_c} NOT NULL, session {text_c} NOT NULL, '
        f'updated_s {real} NOT NULL, events BIGINT NOT NULL, turns BIGINT NOT NULL, PRIMARY KEY (app, "user", session))'
    )


def _from_version_7(connection: Connection) -> None:
    """Migration from version 7: adds the versions of the states that sessions share."""
    kind = 'TEXT COLLATE "C"' if connection.dialect.name == "postgresql" else "TEXT"
    connection.exec_driver_sql(
        f'CREATE TABLE raygrove_shared_versions (app {kind} NOT NULL, "user" {kind} NOT NULL, version BIGINT NOT NULL, '
        'PRIMARY KEY (app, "user"))'
    )


def _from_version_8(connection: Connection) -> None:
    """Migration from version 8: adds the archive of events."""
    sid, raw = ("BIGINT", "BYTEA") if connection.dialect.name == "postgresql" else ("INTEGER", "BLOB")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_archive (sid {sid} NOT NULL, first_seq BIGINT NOT NULL, last_seq BIGINT NOT NULL, raw {raw} "
        "NOT NULL, PRIMARY KEY (sid, first_seq), FOREIGN KEY (sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE)"
    )


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {
    1: _from_version_1,
    2: _from_version_2,
    3: _from_version_3,
    4: _from_version_4,
    5: _from_version_5,
    6: _from_version_6,
    7: _from_version_7,
    8: _from_version_8,
    9: add_model_calls,
}
"""Migrations by the version from which they lead to the next."""


def prepare(connection: Connection) -> None:
    """Create the tables, or migrate them to this program's version. Raises SchemaVersionError."""
    prepare_tables(connection, schema_version, VERSION, metadata.create_all, MIGRATIONS)


def prepare_tables(
    connection: Connection,
    schema_version: Table,
    known: int,
    create: Callable[[Connection], None],
    migrations: Mapping[int, Callable[[Connection], None]],
) -> None:
    """Create tables, or migrate existing ones to the version that this program knows.

    The caller begins and ends the transaction, so a migration happens as a whole or not at all.

    Args:
        schema_version: the table with the version of the others: see `version_table`.
        known: the version that this program knows.
        create: creates all tables.
        migrations: by the version from which they lead to the next.

    Raises:
        SchemaVersionError: a newer version of raygrove has created the tables; nothing was changed.
    """
    if connection.dialect.name == "postgresql":
        # Two processes that both see no tables would both create them. The lock ends with the transaction.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": schema_version.name})
    if not connection.dialect.has_table(connection, schema_version.name):
        create(connection)
        connection.execute(insert(schema_version).values(version=known, program=_this_release()))
        return
    found: int = connection.execute(select(schema_version.c.version)).scalar_one()
    if found > known:
        raise SchemaVersionError(found, known, _release(connection, schema_version))
    for version in range(found, known):
        migrations[version](connection)
    if found < known:
        connection.execute(update(schema_version).values(version=known, program=_this_release()))


def _this_release() -> str:
    try:
        return packages.version("raygrove")
    except packages.PackageNotFoundError:
        return UNKNOWN


def _release(connection: Connection, schema_version: Table) -> str:
    """The release that has created or migrated the tables. A later release may store it elsewhere, or not at all."""
    if not any(each["name"] == "program" for each in inspect(connection).get_columns(schema_version.name)):
        return UNKNOWN
    return str(connection.execute(select(schema_version.c.program)).scalar_one())
