"""Stores whose file is read-only, full, deleted or replaced while they are open, or is none that could be opened."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event

from actors.errors import StoreError, StoreUnavailableError
from actors.messages.session import MemoryEntry
from runtime.stores.memory import SqlMemoryStore
from runtime.stores.sql import schema
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.servers.postgres_server import short_folder
from tests.support.stores import store_writes as writes
from tests.support.stores.store_writes import S1, fill_sessions, seqs

NOBODY = 65534
"""An account that owns nothing."""


@contextmanager
def read_only(files: Sequence[Path]) -> Iterator[None]:
    """Files that this process may only read. Root, which no mode stops, becomes another account meanwhile."""
    for file in files:
        # Those beside it, such as a write-ahead log, are for their owner only, which is another account now.
        for each in (file, *file.parent.glob(f"{file.name}-*")):
            each.chmod(0o444)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for file in files:
            file.chmod(0o644)


@contextmanager
def immutable(files: Sequence[Path]) -> Iterator[None]:
    """Files that no process may change, root included: `chattr +i`."""
    subprocess.run(["chattr", "+i", *files], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


def may_make_immutable(folder: Path) -> bool:
    """Whether `chattr +i` is allowed and keeps those from writing who have the file open: file systems in memory let them."""
    if shutil.which("chattr") is None:
        return False
    probe = folder / "probe"
    with probe.open("w") as file:
        subprocess.run(["chattr", "+i", probe], check=False, capture_output=True)
        try:
            file.write("x")
            file.flush()
            is_kept = False
        except PermissionError:
            is_kept = True
        finally:
            subprocess.run(["chattr", "-i", probe], check=False, capture_output=True)
            probe.unlink()
    return is_kept


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account may enter."""
    with short_folder() as folder:
        yield folder


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(f"sqlite:///{path}", 0.1)
    store.open()
    fill_sessions(store, S1, length=3)
    yield store
    store.close()


def test_a_store_that_was_opened_while_its_file_was_read_only_writes_as_soon_as_it_may(
    path: Path, store: SqlSessionStore
) -> None:
    late = SqlSessionStore(f"sqlite:///{path}", 0.1)
    with read_only([path]):
        late.open()
        for _ in range(2):
            with pytest.raises(StoreError, match="readonly"):
                late.commit([writes.event(S1, 4)])
        assert seqs(late.events(S1)) == [1, 2, 3]
    late.commit([writes.event(S1, 4)])
    assert seqs(store.events(S1)) == [1, 2, 3, 4]
    late.close()


def test_a_memory_store_that_was_opened_read_only_writes_as_soon_as_it_may(path: Path) -> None:
    first, late = (SqlMemoryStore(f"sqlite:///{path}", 0.1) for _ in range(2))
    first.open()
    entry = MemoryEntry(session_id="s1", author="user", timestamp=1.0, text="green tea")
    with read_only([path]):
        late.open()
        with pytest.raises(StoreError, match="readonly"):
            late.add_session(S1, [entry])
    late.add_session(S1, [entry])
    assert first.search(S1.app, S1.user, "tea", 10) == [entry]
    late.close()
    first.close()


def test_a_file_that_nobody_may_change_for_a_while_is_written_again_afterwards(folder: Path, path: Path) -> None:
    if not may_make_immutable(folder):
        pytest.skip("chattr +i is not permitted here, or says nothing to those who have the file open")
    store = SqlSessionStore(f"sqlite:///{path}", 0.1)
    store.open()
    fill_sessions(store, S1, length=3)
    # Not the index of the log: it is mapped into memory, and the kernel kills a process that writes there.
    with immutable([path, path.with_name("sessions.db-wal")]):
        for _ in range(2):
            with pytest.raises(StoreError):
                store.commit([writes.event(S1, 4)])
        assert seqs(store.events(S1)) == [1, 2, 3]
    store.commit([writes.event(S1, 4)])
    assert seqs(store.events(S1)) == [1, 2, 3, 4]
    store.close()


def test_a_server_that_was_read_only_for_a_while_is_written_again_afterwards(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as admin:
        for table in schema.metadata.tables:
            admin.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
        SqlSessionStore(server).open()
        store = SqlSessionStore(server)
        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            store.open()
        finally:
            admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = off")
    with pytest.raises(StoreUnavailableError, match="read-only"):
        fill_sessions(store, S1)
    fill_sessions(store, S1)
    assert store.session(S1) is not None
    store.close()


def test_a_store_in_memory_keeps_its_connection_whatever_it_has_seen() -> None:
    def restrict(connection: object, _record: object) -> None:
        connection.execute("PRAGMA max_page_count=60")  # type: ignore[attr-defined]

    event.listen(Engine, "connect", restrict)
    try:
        store = SqlSessionStore("sqlite://")
        store.open()
        fill_sessions(store, S1, length=3)
        with pytest.raises(StoreUnavailableError, match="full"):
            store.commit([writes.event(S1, 4, raw=b"x" * 1_000_000)])
        store.commit([writes.event(S1, 4)])
        assert seqs(store.events(S1)) == [1, 2, 3, 4]
        store.close()
    finally:
        event.remove(Engine, "connect", restrict)


def test_a_file_that_is_deleted_while_it_is_in_use_fails_every_request_until_it_is_back(
    path: Path, store: SqlSessionStore
) -> None:
    away = path.with_name("away.db")
    path.rename(away)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"sessions\.db' was deleted while it was in use: stop the app, put its file back"):
            store.commit([writes.event(S1, 4)])
        with pytest.raises(StoreError, match="was deleted"):
            store.events(S1)
    assert not path.exists()
    away.rename(path)
    store.commit([writes.event(S1, 4)])
    assert seqs(store.events(S1)) == [1, 2, 3, 4]


def test_a_backup_that_is_put_in_the_place_of_a_file_in_use_is_neither_written_nor_read(
    path: Path, store: SqlSessionStore
) -> None:
    backup = path.with_name("backup.db")
    shutil.copy(path, backup)
    before = backup.read_bytes()
    backup.rename(path)
    with pytest.raises(StoreError, match="was replaced by another file while it was in use"):
        store.commit([writes.event(S1, 4)])
    with pytest.raises(StoreError, match="was replaced"):
        store.session(S1)
    assert path.read_bytes() == before


def test_a_write_ahead_log_that_is_deleted_is_noticed(path: Path, store: SqlSessionStore) -> None:
    store.commit([writes.event(S1, 4)])
    path.with_name("sessions.db-wal").unlink()
    with pytest.raises(StoreError, match=r"write-ahead log .* was deleted while it was in use"):
        store.commit([writes.event(S1, 5)])


def test_a_log_without_its_file_is_refused_and_kept(path: Path) -> None:
    log = path.with_name("sessions.db-wal")
    log.write_bytes(b"turns that were not yet in the file")
    with pytest.raises(StoreError, match=r"is gone, and its write-ahead log 'sessions\.db-wal' is still there"):
        SqlSessionStore(f"sqlite:///{path}").open()
    assert log.read_bytes() == b"turns that were not yet in the file"
    assert not path.exists()


def test_the_folder_of_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{tmp_path / 'data' / 'sessions.db'}")
    store.open()
    store.close()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_path_of_which_more_than_one_folder_is_missing_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere" / "data"
    with pytest.raises(
        StoreError, match=f"no folder '{folder}', nor '{folder.parent}' to make it in: correct the path"
    ) as caught:
        SqlSessionStore(f"sqlite:///{folder / 'sessions.db'}").open()
    assert not isinstance(caught.value, StoreUnavailableError)
    assert not folder.parent.exists()


def test_a_folder_and_a_file_that_may_not_be_read_are_told_at_once_and_are_not_waited_for(path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder: name a file") as caught:
        SqlSessionStore(f"sqlite:///{path.parent}").open()
    assert not isinstance(caught.value, StoreUnavailableError)
    path.touch()
    with read_only([path]):
        if os.getuid() == 0:
            os.seteuid(0)
            path.chmod(0o000)
            os.seteuid(65534)
        else:
            path.chmod(0o000)
        with pytest.raises(StoreError, match="may not read") as caught:
            SqlSessionStore(f"sqlite:///{path}").open()
    assert not isinstance(caught.value, StoreUnavailableError)


def test_a_folder_in_which_nothing_may_be_made_is_told_at_once_with_what_else_to_do(path: Path) -> None:
    missing = path.parent / "data"
    missing.mkdir(0o755)
    with read_only([]):
        for folder, wrong in ((missing, "may make no file in"), (missing / "deeper", "folder cannot be made")):
            if os.getuid():
                missing.chmod(0o500)
            with pytest.raises(StoreError, match=f"{wrong}.*RAYGROVE_DATA_DIR") as caught:
                SqlSessionStore(f"sqlite:///{folder / 'sessions.db'}").open()
            assert not isinstance(caught.value, StoreUnavailableError)
    missing.chmod(0o700)
