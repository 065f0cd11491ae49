"""Whole stores are copied, backed up, exported and imported: every row comes out as it went in, or nothing does."""

from __future__ import annotations

import asyncio
import io
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Blob, Content, FunctionResponse, LlmAgent, Part, ToolContext, tool
from actors.errors import RaygroveError, SchemaVersionError, StoreError
from actors.interfaces.stores import CreateSession, PutState
from actors.messages.protocol.runs import Paused
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.settings import Settings
from runtime.stores import memory
from runtime.stores.sql import schema
from runtime.stores.sql.database import Database
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.transfer.backup import back_up
from runtime.stores.transfer.json_lines import read_lines, write_lines
from runtime.stores.transfer.tables import Row, WholeStore, copy_store
from tests.support.runtimes import Deploy, run_turn
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import S1, any_write, fill_sessions
from tests.support.tries import tries

pytestmark = pytest.mark.sampled(2, of="module")

Rows = list[tuple[str, Row]]


@tool(long_running=True)
def approve(what: str) -> None:
    """Ask a person."""


@tool
def note(context: ToolContext) -> str:
    """Note it."""
    context.state.update({"note": {"n": [1, 2.5, None, "\u2028"]}, "user:name": "Ada", "app:open": True})
    return "noted"


def desk() -> LlmAgent:
    patterns: list[Any] = [("approve", {"call": "approve", "args": {"what": "it"}}), ("note", {"call": "note"})]
    return LlmAgent(name="root", model=PatternModel(patterns, default="ok"), tools=[approve, note])


def fill(deploy: Deploy, **options: Any) -> None:
    """Leave something in every table: turns that ended, that wait for a person, that were rewound; state, memory, requests."""
    with deploy(desk(), settings=Settings(record_requests="on"), **options) as rt:
        for user in ("ada", "bob"):
            run_turn(rt, "please note it", "s1", user)
            run_turn(rt, Content(parts=[Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))]), "s1", user)
            run_turn(rt, "please approve", "s1", user)
            run_turn(rt, "hi", "s2", user, invocation_id="e-rewound")
            rt.sessions.rewind(user, "s2", "e-rewound")
            rt.memory.add_session(user, "s1")
        # Its sid is not used again.
        rt.sessions.delete("bob", "s2")


def all_rows(store: WholeStore) -> Rows:
    with store.read() as rows:
        return [
            (name, {column: bytes(value) if isinstance(value, memoryview) else value for column, value in row.items()})
            for name, row in rows
        ]


@pytest.fixture
def source(tmp_path: Path) -> WholeStore:
    fill(Deploy("local", tmp_path))
    return WholeStore(f"sqlite:///{tmp_path}/sessions.db")


def works(deploy: Deploy, **options: Any) -> None:
    """What was copied is served, and goes on."""
    with deploy(desk(), **options) as rt:
        assert [session.id for session in rt.sessions.list("bob")] == ["s1"]
        session = rt.sessions.get("ada", "s1")
        assert session is not None
        assert session.state["user:name"] == "Ada"
        assert [entry.author for entry in rt.memory.search("ada", "noted")]
        call = next(
            call
            for event in session.events
            for call in (event.content.function_calls() if event.content else [])
            if call.name == "approve"
        )
        turn = rt.attach(
            user_id="ada", session_id="s1", invocation_id=next(e.invocation_id for e in session.events if e.long_running_tool_ids)
        )
        assert isinstance(turn.result().outcome, Paused)
        answer = Content(parts=[Part(function_response=FunctionResponse(id=call.id, name="approve", response={"yes": True}))])
        assert run_turn(rt, answer, "s1", "ada")
        run_turn(rt, "hi", "s3", "ada")
        rt.memory.add_session("ada", "s3")


def test_a_program_that_is_just_leaving_a_store_is_waited_for(source: WholeStore, server: str) -> None:
    url = own_tables(server)
    leaving = psycopg.connect(server, application_name=f"raygrove {url.rpartition('%3D')[2]}")
    timer = threading.Timer(0.3, leaving.close)
    timer.start()
    assert copy_store(source, WholeStore(url))
    timer.join()


def test_a_store_goes_from_sqlite_to_postgres_and_back_without_a_change(source: WholeStore, server: str, tmp_path: Path) -> None:
    url = own_tables(server)
    counts = copy_store(source, WholeStore(url))
    rows = all_rows(source)
    assert (
        set(counts)
        == {name for name, _ in rows}
        == {
            *("sessions", "events", "authors", "calls", "turns", "session_state", "shared_state", "memory"),
            *("model_calls", "model_call_parts"),
        }
    )
    assert all_rows(WholeStore(url)) == rows
    back = WholeStore(f"sqlite:///{tmp_path}/back/sessions.db")
    assert copy_store(WholeStore(url), back) == counts
    assert all_rows(back) == rows
    works(Deploy("local", tmp_path / "back"), artifact_store=str(tmp_path / "artifacts"))
    works(Deploy("local", tmp_path), session_store=url)


def test_json_lines_come_back_byte_for_byte_into_either_database(source: WholeStore, server: str, tmp_path: Path) -> None:
    rows, url = all_rows(source), own_tables(server)
    file = io.BytesIO()
    with source.read() as read:
        counts = write_lines(file, read)
    for target in (WholeStore(f"sqlite:///{tmp_path}/again.db"), WholeStore(url)):
        file.seek(0)
        assert target.write(read_lines(file, "lines")) == counts
        assert all_rows(target) == rows
    works(Deploy("local", tmp_path), session_store=url)


def test_json_lines_can_be_read_by_people(source: WholeStore) -> None:
    file = io.BytesIO()
    with source.read() as read:
        write_lines(file, read)
    lines = [msgspec.json.decode(line) for line in file.getvalue().splitlines()]
    assert lines[0] == {"raygrove": "store", "format": 1, "versions": {"sessions": schema.VERSION, "memory": memory.VERSION}}
    told = [line["row"]["raw"] for line in lines if line.get("table") == "events"]
    said = [event["content"]["parts"][0].get("text") for event in told if "content" in event]
    assert said[0] == "please note it"
    # Records of model calls name the parts of their requests by digests, and a part may be of any type.
    rows = [line["row"] for line in lines if "row" in line and not line["table"].startswith("model_call")]
    assert not any(f"{column}:base64" in row for row in rows for column in ("raw", "value"))
    assert b'{"data":"AP8=","mimeType":"image/png"}' in file.getvalue()
    assert lines[-1]["end"]["events"] == len(told)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=tries(200))
@given(st.lists(values.map(msgspec.msgpack.encode) | st.binary(max_size=12)))
def test_any_bytes_of_a_column_come_back(raws: list[bytes]) -> None:
    rows: Rows = [("session_state", {"sid": 1, "key": str(number), "value": raw}) for number, raw in enumerate(raws)]
    file = io.BytesIO()
    write_lines(file, rows)
    file.seek(0)
    assert list(read_lines(file, "lines")) == rows


@settings(max_examples=tries(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(any_write("app"), max_size=30))
def test_any_store_can_be_copied(tmp_path_factory: pytest.TempPathFactory, writes: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("copied")
    store = SqlSessionStore(f"sqlite:///{folder}/a.db")
    store.open()
    for write in writes:
        try:
            store.commit([write])
        except RaygroveError:
            continue
    store.close()
    source, target = WholeStore(f"sqlite:///{folder}/a.db"), WholeStore(f"sqlite:///{folder}/b.db")
    copy_store(source, target)
    assert all_rows(target) == all_rows(source)
    shutil.rmtree(folder)


def exported(store: WholeStore) -> list[bytes]:
    file = io.BytesIO()
    with store.read() as read:
        write_lines(file, read)
    return file.getvalue().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda lines: lines[:-1], "was cut off"),
        (lambda lines: [*lines[:-2], lines[-1]], "is not whole"),
        (lambda lines: [*lines[:-1], lines[-1][:20]], "line .* cannot be read"),
        (lambda lines: lines[1:], "begins with a line that says what it is"),
        (lambda lines: [*lines, lines[1]], "behind the end"),
        (lambda lines: [lines[0], lines[1].replace(b'"sessions"', b'"users"'), *lines[2:]], "no table 'users'"),
        (lambda lines: [lines[0], lines[1].replace(b'"rewinds"', b'"wound"'), *lines[2:]], "has the columns sid, app"),
        (lambda lines: [lines[0], lines[1], *lines[1:]], "UNIQUE"),
        (lambda lines: [], "was cut off"),
    ],
)
def test_a_file_that_is_not_whole_leaves_nothing_behind(source: WholeStore, tmp_path: Path, spoil: Any, reason: str) -> None:
    target = WholeStore(f"sqlite:///{tmp_path}/again.db")
    with pytest.raises(StoreError, match=reason):
        target.write(read_lines(io.BytesIO(b"".join(spoil(exported(source)))), "lines"))
    assert all_rows(target) == []


def test_a_file_of_a_later_version_is_refused(source: WholeStore) -> None:
    lines = exported(source)
    now, next_one = (f'"sessions":{version}'.encode() for version in (schema.VERSION, schema.VERSION + 1))
    for later in (lines[0].replace(b'"format":1', b'"format":2'), lines[0].replace(now, next_one)):
        with pytest.raises(SchemaVersionError):
            list(read_lines(io.BytesIO(b"".join([later, *lines[1:]])), "lines"))


def test_only_an_empty_store_is_filled(source: WholeStore, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    store = SqlSessionStore(url)
    store.open()
    store.commit([PutState(SessionKey("app", "", ""), {"k": 1})])
    store.close()
    before = all_rows(WholeStore(url))
    with pytest.raises(StoreError, match="has shared_state in it already: use a new store"):
        copy_store(source, WholeStore(url))
    assert all_rows(WholeStore(url)) == before


def test_a_store_in_use_is_neither_copied_nor_filled(source: WholeStore, server: str, tmp_path: Path) -> None:
    url = own_tables(server)
    for used in (f"sqlite:///{tmp_path}/used.db", url):
        store = SqlSessionStore(used)
        store.open()
        with pytest.raises(StoreError, match="is in use: stop the app"):
            copy_store(WholeStore(used), WholeStore(f"sqlite:///{tmp_path}/copy.db"))
        with pytest.raises(StoreError, match="is in use: stop the app"):
            copy_store(source, WholeStore(used))
        # Reading it is no harm.
        assert all_rows(WholeStore(used)) == []
        store.commit([CreateSession(S1, 1.0)])
        store.close()


def test_a_missing_store_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no session store"):
        copy_store(WholeStore(f"sqlite:///{tmp_path}/none.db"), WholeStore(f"sqlite:///{tmp_path}/copy.db"))
    assert not (tmp_path / "none.db").exists()


async def test_a_backup_of_a_running_app_is_a_whole_state_of_one_moment(tmp_path: Path) -> None:
    async with Deploy("local", tmp_path)(desk()) as rt:
        spoken = asyncio.Semaphore(0)

        async def speak(session: str) -> None:
            while True:
                await rt.run(user_id="ada", session_id=session, message="hi")
                spoken.release()

        speakers = [asyncio.create_task(speak(f"s{number}")) for number in range(4)]
        for number in range(3):
            for _ in range(8):
                await spoken.acquire()
            acknowledged = {}
            for listed in await rt.aio.sessions.list():
                session = await rt.aio.sessions.get("ada", listed.id)
                assert session is not None
                acknowledged[session.id] = len(session.events)
            file = tmp_path / f"backup-{number}.db"
            assert await asyncio.to_thread(back_up, Database(f"sqlite:///{tmp_path}/sessions.db"), file)
            assert_whole(file, acknowledged)
        for speaker in speakers:
            speaker.cancel()
        await asyncio.wait(speakers)


def assert_whole(file: Path, acknowledged: dict[str, int]) -> None:
    assert not file.with_name(f"{file.name}-wal").exists()
    of_session = "FROM raygrove_sessions JOIN raygrove_events USING (sid) GROUP BY sid"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = dict(connection.execute(f"SELECT session, max(seq) {of_session}").fetchall())
        assert found == dict(connection.execute(f"SELECT session, count(*) {of_session}").fetchall())
    assert all(found[session] >= seq for session, seq in acknowledged.items())


def test_a_backup_replaces_no_file_and_is_of_sqlite_only(source: WholeStore, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(StoreError, match="is there already: choose another name"):
        back_up(Database(f"sqlite:///{tmp_path}/sessions.db"), tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"
    with pytest.raises(StoreError, match=r"is PostgreSQL: use pg_dump --format=custom --file=new"):
        back_up(Database("postgresql://localhost/db"), tmp_path / "new")
    assert not back_up(Database(f"sqlite:///{tmp_path}/none.db"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_large_store_is_copied_page_by_page(tmp_path: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{tmp_path}/a.db")
    store.open()
    keys = [SessionKey("app", "ada", f"s{number}") for number in range(30)]
    fill_sessions(store, *keys, length=37)
    store.close()
    source, target = WholeStore(f"sqlite:///{tmp_path}/a.db"), WholeStore(f"sqlite:///{tmp_path}/b.db")
    assert copy_store(source, target)["events"] == 30 * 37
    assert all_rows(target) == all_rows(source)
