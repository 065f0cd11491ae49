"""Transient database errors are distinguished from permanent ones."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError

from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.stores import PutState, Write
from actors.messages.session import MemoryEntry
from runtime.stores.memory import SqlMemoryStore
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.transient_errors import is_transient
from tests.support.servers.postgres_server import PostgresServer
from tests.support.stores.sqlite_lock import SqliteLock
from tests.support.stores.store_writes import S1, S2, event, fill_sessions, seqs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(f"sqlite:///{path}", lock_timeout_s=0.05)
    store.open()
    yield store
    store.close()


def wrapped(cause: Exception, kind: type[DatabaseError] = OperationalError) -> DatabaseError:
    return kind("SELECT 1", {}, cause)


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, True),
        (sqlite3.SQLITE_LOCKED, True),
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_WRITE, True),
        (sqlite3.SQLITE_CANTOPEN, True),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, False),
        (sqlite3.SQLITE_CORRUPT, False),
        (sqlite3.SQLITE_NOTADB, False),
        (sqlite3.SQLITE_READONLY, False),
        (sqlite3.SQLITE_ERROR, False),
    ],
)
def test_sqlite_tells_by_its_code_what_may_pass(code: int, expected: bool) -> None:
    assert is_transient(sqlite_error(code)) is expected
    assert is_transient(wrapped(sqlite_error(code))) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CrashShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.SerializationFailure(), True),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.DiskFull(), True),
        (psycopg.errors.TooManyConnections(), True),
        (psycopg.errors.LockNotAvailable(), True),
        (psycopg.errors.QueryCanceled(), True),
        (psycopg.errors.IoError(), True),
        (psycopg.errors.ReadOnlySqlTransaction(), True),
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.errors.UndefinedTable(), False),
        (psycopg.errors.InsufficientPrivilege(), False),
        (psycopg.errors.StringDataRightTruncation(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_postgresql_tells_by_its_sqlstate_what_may_pass(error: Exception, expected: bool) -> None:
    kind = IntegrityError if isinstance(error, psycopg.IntegrityError) else OperationalError
    assert is_transient(wrapped(error, kind)) is expected


def test_what_is_no_fault_of_a_database_passes_only_if_the_system_says_so() -> None:
    assert is_transient(OSError(errno.ENOSPC, "full"))
    assert not is_transient(OSError(errno.ENOTDIR, "no folder"))
    assert not is_transient(ValueError("x"))
    assert not is_transient(wrapped(psycopg.DataError("x"), DatabaseError))


def test_a_file_that_another_process_has_locked_is_unavailable_and_later_takes_the_same_writes(
    path: Path, store: SqlSessionStore
) -> None:
    fill_sessions(store, S1, length=1)
    with SqliteLock(path) as locker:
        with pytest.raises(StoreUnavailableError, match="database is locked") as caught:
            store.commit([event(S1, 2)])
        assert caught.value.args[0] == str(store)
        assert seqs(store.events(S1)) == [1]
        locker.release()
        store.commit([event(S1, 2)])
    assert seqs(store.events(S1)) == [1, 2]


def test_a_full_disk_is_unavailable_stores_nothing_and_later_takes_the_same_writes(store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=1)
    pages = store._database._connected().exec_driver_sql("PRAGMA page_count").scalar()
    store._database._connected().exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    large: list[Write] = [event(S1, 2), PutState(S1, {"k": 1}), event(S1, 3, raw=bytes(1_000_000))]
    with pytest.raises(StoreUnavailableError, match="full"):
        store.commit(large)
    assert seqs(store.events(S1)) == [1]
    assert store.session(S1).state == {}  # type: ignore[union-attr]
    store._database._connected().exec_driver_sql("PRAGMA max_page_count = 1000000")
    store.commit(large)
    assert seqs(store.events(S1)) == [1, 2, 3]


def test_a_memory_that_is_locked_is_unavailable(tmp_path: Path) -> None:
    store = SqlMemoryStore(f"sqlite:///{tmp_path}/memory.db", lock_timeout_s=0.05)
    store.open()
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="memory store"):
            store.add_session(S1, [MemoryEntry(session_id="s1", author="root", timestamp=1.0, text="tea")])
    store.close()


def test_a_server_that_is_stopped_is_unavailable_and_works_again_when_it_is_back(own_server: PostgresServer) -> None:
    store = SqlSessionStore(own_server.url)
    store.open()
    fill_sessions(store, S1, length=1)
    for mode in ("fast", "immediate"):
        own_server.stop(mode=mode)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                store.commit([event(S1, 2)])
            with pytest.raises(StoreUnavailableError):
                store.events(S1)
        with pytest.raises(StoreUnavailableError):
            SqlSessionStore(own_server.url).open()
        own_server.start()
        assert seqs(store.events(S1)) == [1]
    store.commit([event(S1, 2)])
    assert seqs(store.events(S1)) == [1, 2]
    store.close()


def test_a_row_that_somebody_has_locked_is_unavailable_in_time(own_server: PostgresServer) -> None:
    store = SqlSessionStore(own_server.url, lock_timeout_s=0.1)
    store.open()
    fill_sessions(store, S2, length=1)
    with psycopg.connect(own_server.url) as other:
        other.execute("LOCK TABLE raygrove_events")
        with pytest.raises(StoreUnavailableError, match="lock timeout"):
            store.commit([event(S2, 2)])
    store.commit([event(S2, 2)])
    store.close()


def test_a_fault_that_does_not_pass_is_an_ordinary_store_error(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError) as caught:
        SqlSessionStore(f"sqlite:///{path}").open()
    assert not isinstance(caught.value, StoreUnavailableError)
