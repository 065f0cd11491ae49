"""Stores that cannot be used, or read: the start of a deployment tells, and the first turn raises the store's own error."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from actors import LlmAgent, RunConfig
from actors.errors import RaygroveError, RuntimeClosedError, StoreConflictError, StoreError, StoreUnavailableError
from actors.interfaces.stores import AddEvent, CreateSession, EventHead, EventRow, PutTurn, TurnFilter, Write
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.stores.unowned_store import UnownedStore


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


def no_database(path: Path) -> None:
    path.write_text("no database at all, but longer than the head of one" * 100)


def random_head(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    path.write_bytes(bytes(range(1, 101)) + path.read_bytes()[100:])


def cut(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    path.write_bytes(path.read_bytes()[:100])


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("spoil", [no_database, random_head, cut, folder])
def test_a_start_over_a_file_that_is_no_store_raises_what_is_wrong(
    local: Deploy, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "sessions.db")
    rt = local(root())
    with pytest.raises(StoreError, match=r"session store .*sessions\.db") as caught:
        rt.start()
    # Nothing of it is waited for: it does not pass by itself.
    assert not isinstance(caught.value, StoreUnavailableError)
    with pytest.raises(RuntimeClosedError):
        rt.statistics()


def test_a_start_with_artifacts_in_a_file_raises_what_is_wrong(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("")
    with pytest.raises(StoreError, match="is a file, name a folder"):
        deploy(root()).start()


def test_a_start_with_artifacts_in_a_folder_that_leads_nowhere_raises_what_is_wrong(local: Deploy, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*nowhere': correct the path, or make the folder"):
        local(root(), artifact_store=f"file://{tmp_path}/nowhere/a/b").start()
    assert not (tmp_path / "nowhere").exists()
    with local(root(), artifact_store=f"file://{tmp_path}/a/b"):
        pass


def test_after_a_start_that_failed_nothing_runs_and_the_app_starts_over_a_store_that_can_be_used(
    deploy: Deploy, tmp_path: Path
) -> None:
    folder(tmp_path / "sessions.db")
    rt = deploy(root())
    with pytest.raises(StoreError, match="is a folder"):
        rt.start()
    (tmp_path / "sessions.db").rmdir()
    with rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "ok")]


def test_a_start_waits_for_a_store_that_is_away_no_longer_than_its_timeout(local: Deploy) -> None:
    rt = local(root(), session_store="postgresql://nobody@localhost:1/none", settings=Settings(store_timeout_s=0.3))
    with pytest.raises(StoreUnavailableError, match="session store"):
        rt.start()


class RefusingStore(SqlSessionStore):
    """Refuses writes while `refuses`, each when `decides` is set."""

    refuses = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked, self.decides = threading.Event(), threading.Event()

    def commit(self, writes: Sequence[Write]) -> None:
        if self.refuses:
            self.asked.set()
            self.decides.wait(60)
            raise StoreError("the store is on strike")
        super().commit(writes)


def test_a_turn_that_a_store_refuses_raises_the_store_s_error_for_all_who_follow_it(local: Deploy) -> None:
    store = RefusingStore("sqlite://")
    with local(root(), session_store=store) as rt:
        rt.sessions.create("ada", "s1")
        store.refuses = True
        began = rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="e-1")
        assert store.asked.wait(60)
        joined = rt.attach(user_id="ada", session_id="s1", invocation_id="e-1")
        # It is known to the Session actor before the store decides.
        assert joined.agent == ""
        store.decides.set()
        for turn in (began, joined):
            with pytest.raises(StoreError, match="the store is on strike") as caught:
                list(turn)
            assert (type(caught.value), caught.value.args) == (StoreError, ("the store is on strike",))
        store.refuses = False
        assert author_texts(run_turn(rt, "hi")) == [("root", "ok")]


class OvertakenStore(SqlSessionStore):
    """Creates each session a moment after another deployment has."""

    def commit(self, writes: Sequence[Write]) -> None:
        created = [write for write in writes if isinstance(write, CreateSession)]
        if created:
            other = SqlSessionStore(self.url)
            other.open()
            # Never at the very same time: what was created then is the same session.
            other.commit([CreateSession(write.key, write.created_s + 0.001) for write in created])
            other.close()
        super().commit(writes)

    url = ""


async def test_a_turn_whose_session_another_deployment_creates_at_the_same_time_is_a_conflict(
    local: Deploy, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    store = OvertakenStore(url)
    store.url = url
    async with local(root(), session_store=store) as rt:
        with pytest.raises(StoreConflictError, match="created at the same time"):
            await rt.run(user_id="ada", session_id="s1", message="hi")
        assert (await rt.run(user_id="ada", session_id="s1", message="hi")).text == "ok"


def test_who_follows_a_turn_that_another_deployment_goes_on_with_is_told_of_the_conflict(local: Deploy, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    with local(root(), session_store=UnownedStore(url)) as rt:
        ended = run_turn(rt, "hi")[-1]
        other = SqlSessionStore(url)
        other.open()
        [(key, row)] = other.turns(TurnFilter(app=rt.app_name))
        other.commit([PutTurn(key, replace(row, status="running", epoch=row.epoch + 1, outcome=b""), row.begun_s)])
        other.close()
        follows = rt.attach(user_id=key.user, session_id=key.session, invocation_id=ended.invocation_id)
        with pytest.raises(StoreConflictError, match="goes on there"):
            follows.result()


async def test_two_deployments_that_create_the_same_sessions_raise_nothing_but_conflicts(tmp_path: Path) -> None:
    def deployed() -> Runtime:
        return Deploy("local", tmp_path)(root(), session_store=UnownedStore(f"sqlite:///{tmp_path}/sessions.db"))

    async def ask(rt: Runtime, session: str) -> None:
        with suppress(StoreConflictError):
            await rt.run(user_id="ada", session_id=session, message="hi")

    async with deployed() as ours, deployed() as theirs:
        await asyncio.gather(*(ask(rt, f"s{number}") for number in range(20) for rt in (ours, theirs)))


KEY = SessionKey("test", "ada", "s1")


def test_who_follows_a_turn_that_cannot_be_read_is_told_so_and_others_go_on(local: Deploy) -> None:
    with local(root()) as rt:
        run_turn(rt, "hi", invocation_id="e-1")
    store = SqlSessionStore(f"sqlite:///{local.folder}/sessions.db")
    store.open()
    raw = encode({"id": "x", "invocationId": "e-1", "author": "root", "content": {"parts": [{"text": 7}]}})
    store.commit(
        [AddEvent(KEY, EventRow(seq=3, head=EventHead(id="x", invocation_id="e-1", author="root", timestamp=1.0), raw=raw))]
    )
    store.close()
    with local(root()) as rt:
        with pytest.raises(StoreError, match=r"event 3 of the session cannot be read: .*text"):
            rt.attach(user_id="ada", session_id="s1", invocation_id="e-1").result()
        with pytest.raises(RaygroveError):
            run_turn(rt, "and now?", run_config=RunConfig(timeout=20))
        assert author_texts(run_turn(rt, "hi", "s2")) == [("root", "ok")]
