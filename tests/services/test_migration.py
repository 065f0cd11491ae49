"""Stores of older versions keep their contents, and get the tables of this version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, inspect

from actors.errors import SchemaVersionError, StoreError
from actors.messages.operating.release import UNKNOWN_RELEASE
from actors.messages.session import SessionKey
from runtime.stores import memory
from runtime.stores.memory import SqlMemoryStore
from runtime.stores.sql import schema
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.stores.old_schemas import memory_version_1, rows_of_version_1, version_1
from tests.support.stores.store_writes import event, seqs, turn

KEY = SessionKey("test", "ada", "s1")
RAWS = [b"asked", b"answered"]


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A SQLite file as version 1 left it."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        for statement in version_1("sqlite"):
            connection.execute(statement)
        for statement, values in rows_of_version_1(RAWS):
            connection.execute(statement, values)
        connection.commit()
    return path


@pytest.fixture
def old_database(server: str) -> str:
    """A PostgreSQL database as version 1 left it."""
    with psycopg.connect(server, autocommit=True) as connection:
        for table in schema.metadata.tables:
            connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
        for statement in version_1("postgresql"):
            connection.execute(statement.encode())
        for statement, values in rows_of_version_1(RAWS):
            connection.execute(statement.replace("?", "%s").encode(), values)
    return server


def assert_everything_works(url: str) -> None:
    store = SqlSessionStore(url)
    store.open()
    row = store.session(KEY)
    assert row is not None
    assert (row.head_seq, row.authors, row.state) == (2, (("root", 2),), {"seen": 1})
    assert store.events(KEY) == list(enumerate(RAWS, start=1))
    assert store.state("test", "ada") == ({}, {"name": "Ada"})
    assert store.turn(KEY, "e-old").status == "finished"  # type: ignore[union-attr]
    assert inside.opened(store.turn(KEY, "e-paused"))[0] == {"step": 2}  # type: ignore[arg-type]
    assert inside.opened(store.turn(KEY, "e-old"))[0] == {}  # type: ignore[arg-type]
    old, paused = store.turn(KEY, "e-old"), store.turn(KEY, "e-paused")
    assert old is not None
    assert paused is not None
    assert (old.begun_s, old.ended_s, old.last_seq) == (1.0, 2.0, 2)
    assert (paused.begun_s, paused.last_seq) == (0.0, 0), "it has no events"
    store.commit([event(KEY, 3, "root", calls=("c-1",)), turn(KEY, "e-new", first_seq=3)])
    assert seqs(store.events(KEY)) == [1, 2, 3]
    assert [found.invocation_id for _, found in store.running("test")] == ["e-new"]
    store.close()


def test_a_file_of_version_1_is_brought_up_to_date_with_all_that_is_in_it(old_file: Path) -> None:
    assert_everything_works(f"sqlite:///{old_file}")
    with closing(sqlite3.connect(old_file)) as connection:
        assert connection.execute("SELECT version FROM raygrove_schema").fetchall() == [(schema.VERSION,)]


def test_a_server_of_version_1_is_brought_up_to_date_with_all_that_is_in_it(old_database: str) -> None:
    assert_everything_works(old_database)
    with psycopg.connect(old_database) as connection:
        assert connection.execute("SELECT version FROM raygrove_schema").fetchall() == [(schema.VERSION,)]


def test_migrated_tables_are_those_of_a_new_store(old_file: Path, tmp_path: Path) -> None:
    SqlSessionStore(f"sqlite:///{old_file}").open()
    SqlSessionStore(f"sqlite:///{tmp_path}/new.db").open()
    assert columns(f"sqlite:///{old_file}") == columns(f"sqlite:///{tmp_path}/new.db")


def test_migrated_tables_of_a_server_are_those_of_a_new_store(old_database: str) -> None:
    url = old_database.replace("postgresql:", "postgresql+psycopg:")
    SqlSessionStore(old_database).open()
    migrated = columns(url)
    with psycopg.connect(old_database, autocommit=True) as connection:
        for table in schema.metadata.tables:
            connection.execute(f'DROP TABLE "{table}" CASCADE'.encode())
    SqlSessionStore(old_database).open()
    assert migrated == columns(url)


def columns(url: str) -> dict[str, Any]:
    """Every table with its columns, its indexes with theirs, and the columns of its keys in any order."""
    engine = create_engine(url)
    found = inspect(engine)
    told = {
        table: (
            [(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(table)],
            sorted(
                (index["name"] or "", index["column_names"])
                for index in found.get_indexes(table)
                if "duplicates_constraint" not in index
            ),
            sorted(sorted(key["column_names"]) for key in found.get_unique_constraints(table)),
            sorted(found.get_pk_constraint(table)["constrained_columns"]),
        )
        for table in found.get_table_names()
        if table.startswith("raygrove_") and not table.startswith("raygrove_memory")
    }
    engine.dispose()
    return told


def test_a_memory_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.memory.db"
    with closing(sqlite3.connect(path)) as connection:
        for statement in memory_version_1():
            connection.execute(statement)
        connection.commit()
    store = SqlMemoryStore(f"sqlite:///{path}")
    store.open()
    assert store.search("test", "ada", "anything", 10) == []
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version FROM raygrove_memory_schema").fetchall() == [(memory.VERSION,)]


def test_a_migration_that_fails_changes_nothing_and_can_be_tried_again(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = schema.MIGRATIONS[1]

    def half_done(connection: Connection) -> None:
        real(connection)
        connection.exec_driver_sql("DELETE FROM raygrove_events")
        raise OSError("the power went")

    monkeypatch.setattr(schema, "MIGRATIONS", {1: half_done})
    with pytest.raises(StoreError, match="the power went"):
        SqlSessionStore(f"sqlite:///{old_file}").open()
    with closing(sqlite3.connect(old_file)) as connection:
        assert connection.execute("SELECT * FROM raygrove_schema").fetchall() == [(1,)]
    monkeypatch.undo()
    assert_everything_works(f"sqlite:///{old_file}")


def test_there_is_a_way_from_every_version_to_this_one() -> None:
    known: list[tuple[int, dict[int, Callable[[Connection], None]]]] = [
        (schema.VERSION, dict(schema.MIGRATIONS)),
        (memory.VERSION, dict(memory.MIGRATIONS)),
    ]
    for version, migrations in known:
        assert sorted(migrations) == list(range(1, version))


@pytest.mark.parametrize("has_program", [True, False])
def test_a_newer_store_is_refused_with_what_has_made_it_and_left_as_it_is(tmp_path: Path, has_program: bool) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        more = ", program TEXT" if has_program else ", made_by TEXT"
        connection.execute(f"CREATE TABLE raygrove_schema (version INTEGER PRIMARY KEY{more})")
        connection.execute("INSERT INTO raygrove_schema VALUES (99, '7.1')")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError) as caught:
        SqlSessionStore(f"sqlite:///{path}").open()
    assert caught.value.args == (99, schema.VERSION, "7.1" if has_program else UNKNOWN_RELEASE)
    assert path.read_bytes() == before
