"""The session store on SQLite: the contract, and the particulars of files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

from actors.errors import SchemaVersionError, StoreConflictError, StoreError
from actors.interfaces.stores import CreateSession, HideEvents, PutState, RemoveSession, Write
from actors.layers.stores.parts import SessionStore
from actors.layers.trees.version import UNKNOWN_RELEASE
from actors.messages.event import new_event_id, new_invocation_id
from actors.messages.session import SessionKey
from runtime.stores.sql import queries, schema
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.batch_conformance import BatchConformance
from tests.support.stores.model_call_conformance import ModelCallConformance
from tests.support.stores.plain_session_store import PlainStore
from tests.support.stores.session_store_conformance import LastingStoreConformance, SessionStoreConformance
from tests.support.stores.store_writes import APP, S1, S2, event, fill_sessions, seqs, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(f"sqlite:///{path}")
    store.open()
    yield store
    store.close()


class TestSqliteFile(LastingStoreConformance):
    @pytest.fixture
    def store(self, store: SqlSessionStore) -> SessionStore:
        return store


class TestPlainStore(SessionStoreConformance):
    """The one with which the others are compared."""

    @pytest.fixture
    def store(self) -> SessionStore:
        return PlainStore()


class TestModelCallsInSqlite(ModelCallConformance):
    pass


class TestBatchesInSqlite(BatchConformance):
    pass


class TestSqliteInMemory(SessionStoreConformance):
    @pytest.fixture(params=["sqlite://", "sqlite:///:memory:"])
    def store(self, request: pytest.FixtureRequest) -> Iterator[SessionStore]:
        store = SqlSessionStore(request.param)
        store.open()
        yield store
        store.close()


def test_a_file_is_written_ahead_and_synced_at_every_commit(store: SqlSessionStore, path: Path) -> None:
    fill_sessions(store, S1)
    with store._database.transaction() as transaction:
        found = {
            name: transaction.connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "foreign_keys")
        }
    assert found == {"synchronous": 2, "foreign_keys": 1}
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_acknowledged_commit_survives_a_process_that_dies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    program = f"""
import os
from tests.support.stores.store_writes import S1, fill_sessions
from runtime.stores.sql.sessions import SqlSessionStore
store = SqlSessionStore({url!r})
store.open()
fill_sessions(store, S1, length=5)
os._exit(9)
"""
    died = subprocess.run([sys.executable, "-c", program], check=False, cwd=Path(__file__).parents[2])
    assert died.returncode == 9
    store = SqlSessionStore(url)
    store.open()
    assert seqs(store.events(S1)) == [1, 2, 3, 4, 5]
    store.close()


@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "sqlite+aiosqlite:///x.db", "sessions.db", "", "postgres://h/db"])
def test_an_url_of_another_kind_is_refused_with_what_would_be_right(url: str) -> None:
    with pytest.raises(StoreError, match="use 'sqlite:///folder/file") as caught:
        SqlSessionStore(url)
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"psycopg.*pip install 'raygrove\[postgres\]'"):
        SqlSessionStore("postgresql://localhost/db").open()


def test_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but longer than the head of one" * 10)
    with pytest.raises(StoreError, match="not a database"):
        SqlSessionStore(f"sqlite:///{tmp_path / 'text.db'}").open()


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="session store"):
        SqlSessionStore(f"sqlite:///{tmp_path / 'file' / 'x.db'}").open()


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
        (store := SqlSessionStore(f"sqlite:///{path}")).open()
    assert caught.value.args == (99, schema.VERSION, "7.1" if has_program else UNKNOWN_RELEASE)
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="not open"):
        store.events(S1)


def test_many_openers_of_a_new_file_make_its_tables_once(path: Path) -> None:
    stores = [SqlSessionStore(f"sqlite:///{path}") for _ in range(8)]
    failed = in_threads([store.open for store in stores])
    assert failed == []
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT version FROM raygrove_schema").fetchall() == [(schema.VERSION,)]
    for store in stores:
        store.close()


def test_writers_of_other_sessions_share_a_file(path: Path, store: SqlSessionStore) -> None:
    def write(number: int) -> None:
        mine = SqlSessionStore(f"sqlite:///{path}")
        mine.open()
        key = SessionKey(APP, "ada", f"shared-{number}")
        mine.commit([CreateSession(key, 1.0)])
        for seq in range(1, 31):
            mine.commit([event(key, seq)])
        mine.close()

    failed = in_threads([lambda number=number: write(number) for number in range(4)])
    assert failed == []
    assert [row.head_seq for row in store.sessions(APP, "ada")] == [30] * 4


def test_a_second_writer_of_a_session_is_told_of_the_first(path: Path, store: SqlSessionStore) -> None:
    other = SqlSessionStore(f"sqlite:///{path}")
    other.open()
    fill_sessions(store, S1, length=2)
    other.commit([event(S1, 3, id="theirs")])
    with pytest.raises(StoreConflictError, match="place 3"):
        store.commit([event(S1, 3, id="ours")])
    other.close()


def test_a_session_removed_by_somebody_else_is_a_conflict_and_no_orphan(path: Path, store: SqlSessionStore) -> None:
    other = SqlSessionStore(f"sqlite:///{path}")
    other.open()
    fill_sessions(store, S1, length=2)
    other.commit([RemoveSession(S1), CreateSession(S2, 1.0)])
    for write in (event(S1, 3), turn(S1), PutState(S1, {"k": 1}), HideEvents(S1, 1, 2)):
        with pytest.raises(StoreConflictError, match="not there"):
            store.commit([write])
    assert other.session(S2).head_seq == 0  # type: ignore[union-attr]
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT count(*) FROM raygrove_events").fetchone() == (0,)
    other.close()


def test_a_read_in_between_does_not_hold_up_other_writers(path: Path, store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=2)
    store.events(S1)
    with closing(sqlite3.connect(path, timeout=0)) as other, other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM raygrove_turns")
    store.commit([event(S1, 3)])


def test_no_question_passes_over_a_whole_table(store: SqlSessionStore, path: Path) -> None:
    fill_sessions(store, S1, length=4)
    asked = [queries.SID, queries.SESSION, queries.AUTHORS, queries.STATE, queries.SHARED_STATE, queries.UNDOS]
    asked += [queries.TURN, queries.RUNNING_TURNS, queries.CALL, queries.TAKEN]
    asked += [queries.event_list(limited=True, since=True, newest=newest) for newest in (True, False)]
    asked += [of(of_user=of_user) for of in (queries.session_list, queries.state_list) for of_user in (True, False)]
    for query in asked:
        scans = [step for step in explained(path, query) if "SCAN raygrove" in step and "raygrove_turns_running" not in step]
        assert scans == [], query


def test_running_turns_are_found_without_asking_every_session(store: SqlSessionStore, path: Path) -> None:
    fill_sessions(store, S1, length=4)
    assert explained(path, queries.RUNNING_TURNS)[0] == "SCAN raygrove_turns USING INDEX raygrove_turns_running"


def test_a_log_is_read_in_the_order_of_its_key_without_sorting(store: SqlSessionStore, path: Path) -> None:
    fill_sessions(store, S1, length=4)
    for newest in (True, False):
        steps = explained(path, queries.event_list(limited=True, since=False, newest=newest))
        assert not any("TEMP B-TREE" in step for step in steps)
        assert any("(sid=? AND seq>?)" in step for step in steps)


def test_taking_a_session_up_costs_the_same_with_a_log_of_any_length(store: SqlSessionStore, path: Path) -> None:
    short, long, rewound = S1, S2, SessionKey(APP, "ada", "s3")
    fill_sessions(store, short, length=8)
    fill_sessions(store, long, rewound, length=4000)
    store.commit([HideEvents(rewound, 9, 4000)])
    # A pass over 4000 events would be thousands of instructions; at the edge of an index it is one more or less.
    limit = steps_of_session(path, short) + 5
    assert steps_of_session(path, long) <= limit
    assert steps_of_session(path, rewound) <= limit


def in_threads(calls: list[Any]) -> list[Exception]:
    """The errors of calls that ran at the same time."""
    failed: list[Exception] = []
    start = threading.Barrier(len(calls))

    def run(call: Any) -> None:
        start.wait()
        try:
            call()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def compiled(query: Any) -> str:
    return str(query.compile(dialect=sqlite.dialect(paramstyle="named"), compile_kwargs={"render_postcompile": True}))


def turn_lists() -> Iterator[tuple[Any, str]]:
    """Each query for turns, and the index that it walks from the newest turn back."""
    for paged in (False, True):
        for status in ("", "paused", "failed", "cancelled"):
            yield queries.turn_list("app", status, paged=paged), f"raygrove_turns_{status or 'by_time'}"
        for scope in ("session", "user"):
            yield queries.turn_list(scope, "", paged=paged), "raygrove_turns_of_session"


def test_turns_are_listed_by_an_index_and_not_sorted(store: SqlSessionStore, path: Path) -> None:
    fill_sessions(store, S1, length=4)
    for query, index in turn_lists():
        steps = explained(path, query)
        assert any(index in step for step in steps), steps
        # Each session of a user gives its newest turns, and those are sorted.
        assert "USE TEMP B-TREE FOR ORDER BY" not in steps or "raygrove_turns_of_session" in index, steps


@pytest.mark.parametrize("after_another", [False, True])
def test_pages_of_sessions_are_listed_by_an_index(store: SqlSessionStore, path: Path, after_another: bool) -> None:
    fill_sessions(store, S1, length=1)
    steps = explained(path, queries.session_list(of_user=False, paged=True, after_another=after_another))
    assert any("USING INDEX raygrove_sessions_by_time" in step for step in steps), steps
    # Only those of one time are sorted.
    assert not any(step == "USE TEMP B-TREE FOR ORDER BY" for step in steps[: steps.index(found_page(steps))]), steps
    of_user = explained(path, queries.session_list(of_user=True, paged=True, after_another=after_another))
    assert not any("raygrove_sessions_by_time" in step for step in of_user), of_user


def new_event(key: SessionKey, seq: int) -> Write:
    return event(key, seq, id=new_event_id())


def new_turn(key: SessionKey, seq: int) -> Write:
    return turn(key, new_invocation_id(), "finished", first_seq=seq, begun_s=float(seq))


@pytest.mark.parametrize("what", [new_event, new_turn])
def test_a_commit_of_many_sessions_changes_few_pages_for_the_ids_in_it(
    store: SqlSessionStore, path: Path, what: Callable[[SessionKey, int], Write]
) -> None:
    keys = [SessionKey(APP, "ada", f"s{number}") for number in range(100)]
    length = 40
    store.commit([CreateSession(key, 0.0) for key in keys])
    for seq in range(1, length + 1):
        store.commit([what(key, seq) for key in keys])
    store.erase_traces()
    store.commit([what(key, length + 1) for key in keys])
    # The newest rows of each session are elsewhere in other indexes, but of all together the newest ids are in one place.
    assert len(pages_written(path)) < 60


def pages_written(path: Path) -> set[int]:
    """The numbers of the pages that a write-ahead log has."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    return {int.from_bytes(log[at : at + 4], "big") for at in range(32, len(log), 24 + 4096)}


def found_page(steps: list[str]) -> str:
    """The step that takes a page that was found."""
    return next(step for step in steps if step.startswith("SCAN"))


def explained(path: Path, query: Any) -> list[str]:
    parameters = query.compile(dialect=sqlite.dialect(paramstyle="named")).params
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("EXPLAIN QUERY PLAN " + compiled(query), parameters | {"user_1_1": "", "user_1_2": ""})
        return [str(row[3]) for row in rows]
    finally:
        connection.close()


def steps_of_session(path: Path, key: SessionKey) -> int:
    """How many instructions SQLite runs for the queries of `session`: a measure of work without a clock."""
    connection = sqlite3.connect(path)
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    of_key = {"app": key.app, "user": key.user, "session": key.session}
    (sid,) = connection.execute(compiled(queries.SID), of_key).fetchone()
    connection.set_progress_handler(step, 1)
    for query, parameters in ((queries.SESSION, of_key), (queries.AUTHORS, {"sid": sid}), (queries.STATE, {"sid": sid})):
        given = query.compile(dialect=sqlite.dialect(paramstyle="named")).params | parameters
        connection.execute(compiled(query), given).fetchall()
    connection.close()
    return steps
