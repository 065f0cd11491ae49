"""What a program notices when its stores are locked, full, away or of another version."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from actors import Blob, Content, Event, LlmAgent, Part, RunConfig
from actors.errors import (
    ArtifactError,
    SchemaVersionError,
    StoreConflictError,
    StoreError,
    StoreInUseError,
    StoreUnavailableError,
)
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql import schema
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.servers.postgres_server import PostgresServer
from tests.support.stores.sqlite_lock import SqliteLock
from tests.support.stores.unowned_store import UnownedStore
from tests.support.vectors.vector_agents import FailingArtifactStore

pytestmark = pytest.mark.sampled(2, of="module")

ROOT = Path(__file__).parents[3]


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


def settings(timeout_s: float) -> Settings:
    return Settings(store_timeout_s=timeout_s)


class OutageLog(logging.Handler):
    """Sets `found` when an actor of this process logs that its store is unavailable."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "It is waited for" in record.getMessage():
            self.found.set()


@pytest.fixture
def outages() -> Iterator[OutageLog]:
    logger = logging.getLogger("raygrove.events")
    handler = OutageLog()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def log(rt: Runtime, session_id: str = "s1") -> list[tuple[int, str, str]]:
    session = rt.sessions.get("ada", session_id)
    assert session is not None
    return [(event.seq, event.author, event.text) for event in session.events]


def test_a_turn_waits_for_a_store_that_another_process_has_locked(local: Deploy, tmp_path: Path, outages: OutageLog) -> None:
    with local(root()) as rt:
        run_turn(rt, "one")
        with SqliteLock(tmp_path / "sessions.db") as locker:
            turn = rt.run(user_id="ada", session_id="s1", message="two")
            assert outages.found.wait(60)
            assert len(log(rt)) == 2
            locker.release()
            assert turn.result().text == "ok"
        assert log(rt) == [(1, "user", "one"), (2, "root", "ok"), (3, "user", "two"), (4, "root", "ok")]


def test_a_store_that_is_locked_for_too_long_fails_the_turn_and_the_next_one_works(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(root(), settings=settings(0.4)) as rt:
        run_turn(rt, "one")
        with SqliteLock(tmp_path / "sessions.db") as locker:
            for message in ("two", "three"):
                with pytest.raises(StoreUnavailableError, match=r"sessions.db' is not available: .*database is locked"):
                    run_turn(rt, message)
            locker.release()
            assert author_texts(run_turn(rt, "four")) == [("root", "ok")]
        assert log(rt) == [(1, "user", "one"), (2, "root", "ok"), (3, "user", "four"), (4, "root", "ok")]


def test_a_store_that_is_lost_in_the_middle_of_a_turn_fails_it_and_the_session_is_not_busy(local: Deploy, tmp_path: Path) -> None:
    locker = SqliteLock(tmp_path / "sessions.db")

    def lock() -> str:
        """Lock the store."""
        locker.__enter__()
        return "locked"

    model = PatternModel([("lock", {"call": "lock"})], default="ok")
    with local(LlmAgent(name="root", model=model, tools=[lock]), settings=settings(0.4)) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="lock")
        with pytest.raises(StoreUnavailableError):
            turn.result()
        with pytest.raises(StoreUnavailableError):
            run_turn(rt, "in vain")
        locker.release()
        assert author_texts(run_turn(rt, "again")) == [("root", "ok")]
        assert [author for _, author, _ in log(rt)] == ["user", "root", "user", "root"]
        locker.__exit__(None, None, None)
    with local(root()) as rt, pytest.raises(StoreUnavailableError):
        rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).result()


@pytest.mark.full
def test_a_full_disk_fails_what_does_not_fit_and_takes_it_when_there_is_room(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.programs.full_disk_driver", tmp_path],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    assert told["failed"] == {"turn": "StoreUnavailableError", "session": "StoreUnavailableError", "artifact": "ArtifactError"}
    assert told["log"] == [[1, "user", 6], [2, "root", 2], [3, "user", 1_000_000], [4, "root", 2]]
    assert told["sessions"] == ["s1"]


def test_a_memory_that_is_locked_for_too_long_is_told_and_the_log_does_not_wait_for_it(local: Deploy, tmp_path: Path) -> None:
    with local(root(), settings=settings(0.4)) as rt:
        run_turn(rt, "green tea")
        rt.memory.add_session("ada", "s1")
        with SqliteLock(tmp_path / "sessions.memory.db") as locker:
            with pytest.raises(StoreUnavailableError, match="memory store"):
                rt.memory.add_session("ada", "s1")
            assert author_texts(run_turn(rt, "more tea")) == [("root", "ok")]
            locker.release()
            rt.memory.add_session("ada", "s1")
        assert len(rt.memory.search("ada", "tea")) == 2


def test_whatever_an_artifact_store_raises_is_told_as_an_artifact_error(local: Deploy) -> None:
    class Broken(FailingArtifactStore):
        def keys(self, key: SessionKey) -> list[str]:
            raise KeyError("bucket")

        def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
            raise KeyError("bucket")

    message = Content(parts=[Part(inline_data=Blob(data=b"\x01", mime_type="image/png"))])
    with local(root(), artifact_store=Broken()) as rt:
        with pytest.raises(ArtifactError, match=r"artifact_e-1_0.*it could not be saved: OSError: disk full"):
            run_turn(rt, message, run_config=RunConfig(save_input_blobs_as_artifacts=True), invocation_id="e-1")
        with pytest.raises(ArtifactError, match="could not be loaded: KeyError"):
            rt.artifacts.load("ada", "s1", "a")
        with pytest.raises(StoreError, match="cannot be listed: KeyError"):
            rt.artifacts.list_keys("ada", "s1")
        assert rt.artifacts.list_versions("ada", "s1", "a") == []
        assert author_texts(run_turn(rt, "hi", invocation_id="e-1")) == [("root", "ok")]
        assert len(log(rt)) == 2


def test_a_second_deployment_of_an_app_is_refused_before_it_reads_anything(local: Deploy) -> None:
    with local(root()) as ours:
        run_turn(ours, "one")
        with pytest.raises(StoreInUseError, match=f"app 'test' runs already in process {os.getpid()}"):
            local(root()).start()
        run_turn(ours, "two")
        assert [text for _, _, text in log(ours)] == ["one", "ok", "two", "ok"]
    with local(root()) as theirs:
        run_turn(theirs, "three")


def test_what_another_program_wrote_to_a_session_is_not_overwritten(local: Deploy, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    with local(root()) as ours, local(root(), session_store=UnownedStore(url)) as theirs:
        run_turn(ours, "one")
        run_turn(theirs, "two")
        with pytest.raises(StoreConflictError):
            run_turn(ours, "three")
        run_turn(ours, "four")
        assert [text for _, _, text in log(ours)] == ["one", "ok", "two", "ok", "four", "ok"]


class TalkingSessions:
    """Twenty sessions that run turns one after the other, without a pause."""

    def __init__(self, rt: Runtime, count: int = 20) -> None:
        self._rt = rt
        self.names = [f"s{number}" for number in range(count)]
        self.answered: dict[str, list[str]] = {name: [] for name in self.names}
        self.failed: list[Exception] = []
        self._spoke = asyncio.Condition()
        self._stopped = False

    async def speak(self, name: str) -> None:
        number = 0
        while not self._stopped:
            number += 1
            message = f"{name} says {number}"
            try:
                result = await self._rt.run(user_id="ada", session_id=name, message=message)
            except StoreError as error:
                async with self._spoke:
                    self.failed.append(error)
                    self._spoke.notify_all()
                continue
            assert result.text == "ok"
            async with self._spoke:
                self.answered[name].append(message)
                self._spoke.notify_all()

    async def everybody(self, more: int) -> None:
        """Wait until each of them has had so many answers more."""
        wanted = {name: len(said) + more for name, said in self.answered.items()}
        async with self._spoke:
            await self._spoke.wait_for(lambda: all(len(self.answered[name]) >= wanted[name] for name in self.names))

    async def failures(self, more: int) -> None:
        """Wait until so many turns more have failed."""
        wanted = len(self.failed) + more
        async with self._spoke:
            await self._spoke.wait_for(lambda: len(self.failed) >= wanted)

    def stop(self) -> None:
        self._stopped = True


@pytest.mark.sampled(2)
@pytest.mark.parametrize("timeout_s", [30.0, 0.2], ids=["waits", "gives up"])
async def test_a_server_that_is_restarted_under_load_loses_and_doubles_nothing(
    own_server: PostgresServer, timeout_s: float, outages: OutageLog, tmp_path: Path
) -> None:
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        for table in schema.metadata.tables:
            connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
    async with Deploy("local", tmp_path)(root(), session_store=own_server.url, settings=settings(timeout_s)) as rt:
        speakers = TalkingSessions(rt)
        async with asyncio.TaskGroup() as group:
            speaking = [group.create_task(speakers.speak(name)) for name in speakers.names]
            for mode in ("immediate", "fast"):
                await speakers.everybody(2)
                outages.found.clear()
                await asyncio.to_thread(own_server.stop, mode=mode)
                assert await asyncio.to_thread(outages.found.wait, 60)
                if timeout_s < 1:
                    await speakers.failures(20)
                await asyncio.to_thread(own_server.start)
                await speakers.everybody(2)
            speakers.stop()
            await asyncio.wait(speaking)
        assert bool(speakers.failed) == (timeout_s < 1)
        assert {type(error) for error in speakers.failed} <= {StoreUnavailableError}
        for name in speakers.names:
            await assert_whole(rt, name, speakers.answered[name])


async def assert_whole(rt: Runtime, name: str, answered: list[str]) -> None:
    """No gap, no event twice, and every turn that was answered is there once with its answer."""
    session = await rt.aio.sessions.get("ada", name)
    assert session is not None
    assert [event.seq for event in session.events] == list(range(1, len(session.events) + 1))
    assert len({event.id for event in session.events}) == len(session.events)
    turns: dict[str, list[Event]] = {}
    for event in session.events:
        turns.setdefault(event.invocation_id, []).append(event)
    answers = [events[0].text for events in turns.values() if [event.text for event in events[1:]] == ["ok"]]
    assert [text for text in answers if text in answered] == answered
    for events in turns.values():
        assert [event.author for event in events] in (["user"], ["user", "root"])


@pytest.mark.parametrize("version", [1, 22])
def test_a_store_of_a_commit_before_the_first_release_is_served(version: int, local: Deploy, tmp_path: Path) -> None:
    with local(root()) as rt:
        run_turn(rt, "one")
    # What records of turns carried was an array.
    _begin_before(tmp_path, version, temp=b"\x90", status="failed")
    with local(root()) as rt:
        assert [turn.state for turn in rt.turns.list()] == ["failed"]
        run_turn(rt, "two")
        assert [text for _, author, text in log(rt) if author == "user"] == ["one", "two"]
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        assert connection.execute("SELECT version FROM raygrove_schema").fetchall() == [(schema.VERSION,)]


def test_a_store_of_such_a_commit_is_refused_while_it_has_a_turn_that_is_not_over(local: Deploy, tmp_path: Path) -> None:
    with local(root()) as rt:
        run_turn(rt, "one")
    _begin_before(tmp_path, 1, temp=b"\x90", status="paused")
    with pytest.raises(StoreError, match="end them with the program that has stored them"):
        local(root()).start()


def _begin_before(folder: Path, version: int, *, temp: bytes, status: str) -> None:
    """Have a store be of an older version, and its turns carry what turns of that did."""
    with closing(sqlite3.connect(folder / "sessions.db")) as connection:
        connection.execute("UPDATE raygrove_schema SET version = ?", (version,))
        connection.execute("UPDATE raygrove_turns SET temp = ?, status = ?", (temp, status))
        connection.commit()


def test_a_store_of_a_later_version_is_refused_with_what_to_do(local: Deploy, tmp_path: Path) -> None:
    with local(root()) as rt:
        run_turn(rt, "one")
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        connection.execute("UPDATE raygrove_schema SET version = 99, program = '9.9'")
        connection.commit()
    with pytest.raises(SchemaVersionError, match=r"version 99, made by raygrove 9.9, .* upgrade it"):
        local(root()).start()
