"""The memory store on SQLite and on PostgreSQL: the contract, and the particulars of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from actors.errors import SchemaVersionError, StoreError
from actors.interfaces.stores import MemoryStore
from runtime.stores.memory import SqlMemoryStore, metadata, url_beside
from tests.services.test_sqlite_store import in_threads
from tests.support.stores.memory_store_conformance import OTHERS, S1, MemoryStoreConformance, entry, found, keep


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "memory.db"


@pytest.fixture
def postgres_url(server: str) -> str:
    """A database without tables."""
    with psycopg.connect(server, autocommit=True) as connection:
        for table in metadata.tables:
            connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
    return server


class TestSqlite(MemoryStoreConformance):
    @pytest.fixture
    def store(self, path: Path) -> Iterator[MemoryStore]:
        yield from opened(f"sqlite:///{path}")


class TestPostgres(MemoryStoreConformance):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[MemoryStore]:
        yield from opened(postgres_url)


def opened(url: str) -> Iterator[SqlMemoryStore]:
    store = SqlMemoryStore(url)
    store.open()
    yield store
    store.close()


def test_rare_words_count_more_on_sqlite(path: Path) -> None:
    for store in opened(f"sqlite:///{path}"):
        keep(store, S1, *["a common thing"] * 20, "a rare thing", "nothing")
        assert found(store, "common rare")[0] == "a rare thing"


def test_who_owns_an_entry_is_told_by_its_row_and_not_by_the_index_alone(path: Path) -> None:
    for store in opened(f"sqlite:///{path}"):
        keep(store, S1, "tea")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE raygrove_memory SET user = 'bob'")
        connection.close()
        assert found(store, "tea") == []


def test_nothing_of_a_removed_session_stays_in_the_index(path: Path) -> None:
    for store in opened(f"sqlite:///{path}"):
        keep(store, S1, "tea", "coffee")
        keep(store, OTHERS[0], "tea")
        store.delete_session(S1)
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT words FROM raygrove_memory_words").fetchall() == [("tea",)]
        connection.close()


def test_nothing_of_a_removed_user_stays_in_the_files(path: Path) -> None:
    other = next(key for key in OTHERS if (key.app, key.user) != (S1.app, S1.user))
    for store in opened(f"sqlite:///{path}"):
        keep(store, S1, "marzipan")
        keep(store, other, "liquorice")
        store.delete_user(S1.app, S1.user)
        kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert (b"marzipan" in kept, b"liquorice" in kept) == (False, True)


def test_when_one_entry_cannot_be_stored_the_session_stays_as_it_was(path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{path}", postgres_url):
        for store in opened(url):
            keep(store, S1, "old tea")
            with pytest.raises(StoreError):
                store.add_session(S1, [entry("new tea"), entry("never", at="now")])  # type: ignore[arg-type]
            assert found(store, "tea") == ["old tea"]


def test_tables_of_a_newer_version_are_left_alone(path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{path}", postgres_url):
        store = SqlMemoryStore(url)
        store.open()
        with store._database.transaction() as transaction:
            transaction.connection.exec_driver_sql("UPDATE raygrove_memory_schema SET version = 99")
        with pytest.raises(SchemaVersionError):
            store.open()


def test_many_openers_of_an_empty_database_make_its_tables_once(path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{path}", postgres_url):
        stores = [SqlMemoryStore(url) for _ in range(8)]
        assert in_threads([store.open for store in stores]) == []
        for store in stores:
            store.close()


def test_a_search_on_postgresql_uses_the_index_of_words(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for _ in opened(postgres_url):
            found = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'raygrove_memory_by_words'").fetchone()
    assert found is not None
    assert "USING gin (words)" in found[0]


def test_a_wrong_url_is_a_store_error_that_names_the_memory_store() -> None:
    with pytest.raises(StoreError, match="memory store 'mysql://x' is of an unknown kind"):
        SqlMemoryStore("mysql://x")
    with pytest.raises(StoreError, match="is not open"):
        SqlMemoryStore("sqlite://").search("shop", "ada", "tea", 10)


@pytest.mark.parametrize(
    ("session_store", "memory_store"),
    [
        ("sqlite:///folder/a.db", "sqlite:///folder/a.memory.db"),
        ("sqlite:////tmp/v1.2/a b%20", "sqlite:////tmp/v1.2/a b%20.memory"),
        ("sqlite:///a.db?cache=shared", "sqlite:///a.memory.db?cache=shared"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///:memory:", "sqlite://"),
        ("postgresql://u:p@h/db?sslmode=require", "postgresql://u:p@h/db?sslmode=require"),
    ],
)
def test_memory_is_kept_beside_the_log(session_store: str, memory_store: str) -> None:
    assert url_beside(session_store) == memory_store
