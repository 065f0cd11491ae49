"""The migrations of the session store, each from one version of its tables to the next.

A migration has SQL of its own and is never changed later: the tables of the schema may change, the tables that it finds do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from sqlalchemy import Connection, text

from actors.messages.operating.release import UNKNOWN_RELEASE


def add_release(connection: Connection, table: str) -> None:
    """Migration from version 1: the version table gets the release."""
    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN program TEXT NOT NULL DEFAULT '{UNKNOWN_RELEASE}'")


def _nothing(_: Connection) -> None:
    """Migration from a version that was never released."""


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


def _from_version_9(connection: Connection) -> None:
    """Migration from version 9: adds to records of turns what they have used; that of older ones is read from their events."""
    raw, nothing = ("BYTEA", "''") if connection.dialect.name == "postgresql" else ("BLOB", "x''")
    connection.exec_driver_sql(f"ALTER TABLE raygrove_turns ADD COLUMN usage {raw} NOT NULL DEFAULT {nothing}")


def _from_version_10(connection: Connection) -> None:
    """Migration from version 10: adds schedules."""
    text_c, raw = ('TEXT COLLATE "C"', "BYTEA") if connection.dialect.name == "postgresql" else ("TEXT", "BLOB")
    connection.exec_driver_sql(
        f'CREATE TABLE raygrove_schedules (app {text_c} NOT NULL, "user" {text_c} NOT NULL, name {text_c} NOT NULL, '
        f"id {text_c} NOT NULL, session {text_c} NOT NULL, due_s BIGINT, paused BOOLEAN NOT NULL, last_s BIGINT NOT NULL, "
        f'turns BIGINT NOT NULL, error TEXT NOT NULL, raw {raw} NOT NULL, PRIMARY KEY (app, "user", name))'
    )
    connection.exec_driver_sql(
        'CREATE INDEX raygrove_schedules_due ON raygrove_schedules (app, due_s, "user", name) WHERE due_s IS NOT NULL'
    )


def _from_version_11(connection: Connection) -> None:
    """Migration from version 11: adds the records of model calls."""
    is_postgres = connection.dialect.name == "postgresql"
    sid, raw = ("BIGINT", "BYTEA") if is_postgres else ("INTEGER", "BLOB")
    text_c, real = ('TEXT COLLATE "C"', "DOUBLE PRECISION") if is_postgres else ("TEXT", "DOUBLE")
    of_session = "FOREIGN KEY (sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE"
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_model_calls (sid {sid} NOT NULL, id {text_c} NOT NULL, invocation_id {text_c} NOT NULL, "
        f"seq BIGINT NOT NULL, begun_s {real} NOT NULL, raw {raw} NOT NULL, PRIMARY KEY (sid, id), {of_session})"
    )
    connection.exec_driver_sql("CREATE INDEX raygrove_model_calls_of_turn ON raygrove_model_calls (sid, invocation_id)")
    connection.exec_driver_sql("CREATE INDEX raygrove_model_calls_by_time ON raygrove_model_calls (begun_s)")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_model_call_parts (sid {sid} NOT NULL, digest {raw} NOT NULL, raw {raw} NOT NULL, "
        f"PRIMARY KEY (sid, digest), {of_session})"
    )


def _from_version_12(connection: Connection) -> None:
    """Migration from version 12: adds to records of turns the version of the tree by which they ran, which older ones lack."""
    text_c = 'TEXT COLLATE "C"' if connection.dialect.name == "postgresql" else "TEXT"
    connection.exec_driver_sql(f"ALTER TABLE raygrove_turns ADD COLUMN version {text_c} NOT NULL DEFAULT ''")


def _from_version_16(connection: Connection) -> None:
    """Migration from version 16: adds batches."""
    is_postgres = connection.dialect.name == "postgresql"
    text_c, real, raw = ('TEXT COLLATE "C"', "DOUBLE PRECISION", "BYTEA") if is_postgres else ("TEXT", "DOUBLE", "BLOB")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_batches (app {text_c} NOT NULL, id {text_c} NOT NULL, begun_s {real} NOT NULL, "
        f"updated_s {real} NOT NULL, raw {raw} NOT NULL, PRIMARY KEY (app, id))"
    )
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_batch_items (app {text_c} NOT NULL, batch {text_c} NOT NULL, position BIGINT NOT NULL, "
        f'"user" {text_c} NOT NULL, at_s {real} NOT NULL, raw {raw} NOT NULL, PRIMARY KEY (app, batch, position))'
    )
    connection.exec_driver_sql('CREATE INDEX raygrove_batch_items_of_user ON raygrove_batch_items (app, "user")')


def _from_version_19(connection: Connection) -> None:
    """Migration from version 19: adds a store's place among several, notes of users elsewhere, and parts of users who move."""
    text_c, raw = ('TEXT COLLATE "C"', "BYTEA") if connection.dialect.name == "postgresql" else ("TEXT", "BLOB")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_seats (app {text_c} NOT NULL PRIMARY KEY, family {text_c} NOT NULL, number INTEGER NOT NULL, "
        "stores INTEGER NOT NULL)"
    )
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_placements (app {text_c} NOT NULL, digest {raw} NOT NULL, store INTEGER NOT NULL, "
        "PRIMARY KEY (app, digest))"
    )
    connection.exec_driver_sql(
        f'CREATE TABLE raygrove_arrivals (app {text_c} NOT NULL, "user" {text_c} NOT NULL, number INTEGER NOT NULL, '
        f'raw {raw} NOT NULL, PRIMARY KEY (app, "user", number))'
    )


def _from_version_20(connection: Connection) -> None:
    """Migration from version 20: adds the agents that have spoken in each session, in place of an index of events by author."""
    is_postgres = connection.dialect.name == "postgresql"
    sid, text_c, without = ("BIGINT", 'TEXT COLLATE "C"', "") if is_postgres else ("INTEGER", "TEXT", " WITHOUT ROWID")
    # In the words of the index, which then has the rows in the order in which they are grouped.
    is_visible = "hidden IS false" if is_postgres else "hidden IS 0"
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_authors (sid {sid} NOT NULL, author {text_c} NOT NULL, seq BIGINT NOT NULL, "
        f"PRIMARY KEY (sid, author), FOREIGN KEY (sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE){without}"
    )
    connection.exec_driver_sql(
        "INSERT INTO raygrove_authors (sid, author, seq) SELECT sid, author, max(seq) FROM raygrove_events "
        f"WHERE {is_visible} AND author <> 'user' AND substr(author, 1, 1) <> '@' GROUP BY sid, author"
    )
    connection.exec_driver_sql("DROP INDEX raygrove_events_by_author")


def _from_version_21(connection: Connection) -> None:
    """Migration from version 21: adds to notes of users elsewhere by which move they have left."""
    text_c = 'TEXT COLLATE "C"' if connection.dialect.name == "postgresql" else "TEXT"
    connection.exec_driver_sql(f"ALTER TABLE raygrove_placements ADD COLUMN token {text_c}")


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {
    1: _from_version_1,
    2: _from_version_2,
    3: _from_version_3,
    4: _from_version_4,
    5: _from_version_5,
    6: _from_version_6,
    7: _from_version_7,
    8: _from_version_8,
    9: _from_version_9,
    10: _from_version_10,
    11: _from_version_11,
    12: _from_version_12,
    13: _nothing,
    14: _nothing,
    15: _nothing,
    16: _from_version_16,
    **dict.fromkeys(range(17, 19), _nothing),
    19: _from_version_19,
    20: _from_version_20,
    21: _from_version_21,
}
"""Migrations by the version from which they lead to the next."""
