"""Sessions to which nothing was written for long are deleted with their artifacts, while others talk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from actors import LlmAgent, Part, tool
from actors.errors import RequestError, StoreError
from actors.interfaces.stores import ArtifactStore
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.engine.retention import PrunedSessions
from runtime.stores.sql.database import Database
from runtime.stores.transfer.backup import back_up
from tests.support.runtimes import Deploy, run_turn
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard

DAY_S = 86_400
AGED = (("sessions", "updated_s"), ("sessions", "created_s"), ("events", "timestamp"))


@tool(long_running=True)
def approve() -> None:
    """Ask a person."""


def desk() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([("approve", {"call": "approve"})], default="ok"), tools=[approve])


def make_older(folder: Path, *sessions: str, days: int = 100) -> None:
    """Have sessions of a stopped app be older than they are."""
    with closing(sqlite3.connect(folder / "sessions.db")) as connection:
        of = ",".join(f"'{each}'" for each in sessions)
        for table, column in AGED:
            sids = f"SELECT sid FROM raygrove_sessions WHERE session IN ({of})"
            connection.execute(f"UPDATE raygrove_{table} SET {column} = {column} - {days * DAY_S} WHERE sid IN ({sids})")
        connection.commit()


def listed(rt: Runtime, user: str | None = None) -> list[tuple[str, str]]:
    return sorted((each.user_id, each.id) for each in rt.sessions.list(user))


def test_old_sessions_go_with_their_artifacts_and_all_others_stay(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(desk()) as rt:
        for session in ("old", "asking", "new"):
            run_turn(rt, "please approve" if session == "asking" else "hi", session, state_delta={"k": 1, "user:k": 2})
            rt.artifacts.save("ada", session, "a.txt", Part(text=session))
        rt.artifacts.save("ada", "old", "user:shared.txt", Part(text="shared"))
        rt.memory.add_session("ada", "old")
        run_turn(rt, "hi", "old", "bob")
    make_older(tmp_path, "old", "asking")
    with deploy(desk()) as rt:
        assert rt.sessions.prune(timedelta(days=90), dry_run=True) == PrunedSessions(sessions=2, events=4, turns=2)
        assert rt.sessions.prune(timedelta(days=101)) == PrunedSessions(artifacts=0)
        assert rt.sessions.prune(90 * DAY_S, user_id="ada") == PrunedSessions(sessions=1, events=2, turns=1, artifacts=1)
        assert listed(rt) == [("ada", "asking"), ("ada", "new"), ("bob", "old")]
        assert rt.sessions.prune(timedelta(days=90)) == PrunedSessions(sessions=1, events=2, turns=1, artifacts=0)
        assert rt.sessions.prune(timedelta(days=90)) == PrunedSessions(artifacts=0)
        assert rt.artifacts.list_keys("ada", "old") == ["user:shared.txt"]
        assert rt.artifacts.list_keys("ada", "asking") == ["a.txt", "user:shared.txt"]
        assert [entry.text for entry in rt.memory.search("ada", "hi")] == ["hi"]
        [waiting] = rt.pending(user_id="ada", session_id="asking")
        rt.answer(user_id="ada", session_id="asking", call=waiting, response={"yes": True}).result()
        run_turn(rt, "hi again", "old")
        found = rt.sessions.get("ada", "old")
        assert found is not None
        assert ([event.text for event in found.events], found.state) == (["hi again", "ok"], {"user:k": 2})


@pytest.mark.parametrize("older_than", [0, -1, float("nan"), float("inf"), timedelta(0), "90d", None, True])
def test_a_time_span_that_is_none_is_refused(older_than: Any, local: Deploy) -> None:
    with local(desk()) as rt, pytest.raises(RequestError, match="older_than must be a timedelta above zero"):
        rt.sessions.prune(older_than)


async def test_others_talk_while_hundreds_of_sessions_are_pruned(local: Deploy, tmp_path: Path) -> None:
    async with local(desk()) as rt:
        await asyncio.gather(*(rt.run(user_id="ada", session_id=f"old{number}", message="hi") for number in range(120)))
    make_older(tmp_path, *(f"old{number}" for number in range(120)))
    async with local(desk()) as rt:
        pruning = asyncio.create_task(rt.aio.sessions.prune(timedelta(days=90)))
        texts = [(await rt.run(user_id="bob", session_id="s1", message="hi")).text for _ in range(5)]
        assert texts == ["ok"] * 5
        assert await pruning == PrunedSessions(sessions=120, events=240, turns=120, artifacts=0)
        assert [each.id for each in await rt.aio.sessions.list()] == ["s1"]


class Flaky(ArtifactStore):
    """Artifacts of which none can be deleted until it is mended."""

    def __init__(self) -> None:
        self.names: dict[Any, list[str]] = {}
        self.is_mended = threading.Event()

    def save(self, key: Any, filename: str, part: Part) -> int:
        self.names.setdefault(key, []).append(filename)
        return 0

    def load(self, key: Any, filename: str, version: int | None = None) -> Part | None:
        return None

    def keys(self, key: Any) -> list[str]:
        return list(self.names.get(key, []))

    def versions(self, key: Any, filename: str) -> list[int]:
        return [0]

    def delete(self, key: Any, filename: str) -> None:
        if not self.is_mended.is_set():
            raise OSError("the bucket is away")
        self.names[key].remove(filename)


def test_what_an_interrupted_prune_has_left_the_next_one_deletes_also_in_another_deployment(
    local: Deploy, tmp_path: Path
) -> None:
    files = Flaky()
    with local(desk(), artifact_store=files) as rt:
        run_turn(rt, "hi", "old")
        rt.artifacts.save("ada", "old", "a.txt", Part(text="a"))
    make_older(tmp_path, "old")
    with local(desk(), artifact_store=files) as rt, pytest.raises(StoreError, match="the bucket is away"):
        rt.sessions.prune(timedelta(days=90))
    files.is_mended.set()
    with local(desk(), artifact_store=files) as rt:
        assert rt.sessions.list() == []
        assert rt.sessions.prune(timedelta(days=90)) == PrunedSessions(sessions=1, events=2, turns=1, artifacts=1)
    assert [names for names in files.names.values() if names] == []


def test_all_session_actors_prune_their_own(server: str, tmp_path: Path) -> None:
    sessions: Sequence[str] = one_session_per_shard("test", "ada", SHARDS)
    deploy = ShardedDeploy("local", tmp_path, server)
    with deploy(desk()) as rt:
        for session in sessions:
            run_turn(rt, "hi", session)
        run_turn(rt, "hi", "new", "bob")
    make_older_of_ada(deploy.url)
    with deploy(desk()) as rt:
        assert rt.sessions.prune(timedelta(days=90), dry_run=True).sessions == SHARDS
        assert rt.sessions.prune(timedelta(days=90)).sessions == SHARDS
        assert listed(rt) == [("bob", "new")]


def make_older_of_ada(url: str) -> None:
    """Have all sessions of one user in a PostgreSQL store be 100 days older than they are."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table, column in AGED:
            of = "SELECT sid FROM raygrove_sessions WHERE \"user\" = 'ada'"
            connection.execute(f"UPDATE raygrove_{table} SET {column} = {column} - 8640000 WHERE sid IN ({of})".encode())


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
async def test_two_prune_at_once_while_sessions_begin_anew_and_a_backup_is_made(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sessions, spoken_to = [f"old{number}" for number in range(60)], range(0, 60, 4)
    deploy = Deploy("local", tmp_path)
    if kind == "postgresql":
        deploy = ShardedDeploy("local", tmp_path, request.getfixturevalue("server"))
    async with deploy(desk()) as rt:
        await asyncio.gather(*(rt.run(user_id="ada", session_id=session, message="hi") for session in sessions))
        for session in sessions:
            await rt.aio.artifacts.save("ada", session, "old.txt", Part(text="old"))
    if isinstance(deploy, ShardedDeploy):
        make_older_of_ada(deploy.url)
    else:
        make_older(tmp_path, *sessions)
    backup = tmp_path / "backup.db"
    async with deploy(desk()) as rt:

        async def speak(session: str) -> None:
            await rt.run(user_id="ada", session_id=session, message="hi again")
            await rt.aio.artifacts.save("ada", session, "new.txt", Part(text="new"))

        pruning = [asyncio.create_task(rt.aio.sessions.prune(timedelta(days=90))) for _ in range(2)]
        speaking = [asyncio.create_task(speak(sessions[number])) for number in spoken_to]
        if kind == "sqlite":
            assert await asyncio.to_thread(back_up, Database(f"sqlite:///{tmp_path}/sessions.db"), backup)
        await asyncio.gather(*speaking)
        pruned = await asyncio.gather(*pruning)
        left = {each.id: each for each in await rt.aio.sessions.list("ada")}
        assert left.keys() == {sessions[number] for number in spoken_to}
        kept = 0
        for session in left:
            found = await rt.aio.sessions.get("ada", session)
            assert found is not None
            texts, files = [event.text for event in found.events], await rt.aio.artifacts.list_keys("ada", session)
            stayed = (["hi", "ok", "hi again", "ok"], ["new.txt", "old.txt"])
            assert (texts, sorted(files)) in (stayed, (["hi again", "ok"], ["new.txt"]))
            kept += len(texts) == 4
        assert sum(each.artifacts or 0 for each in pruned) == len(sessions) - kept
        assert all(each.sessions <= len(sessions) - kept for each in pruned)
    if kind == "sqlite":
        with closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            by_session = "SELECT session, count(seq) FROM raygrove_sessions LEFT JOIN raygrove_events USING (sid) GROUP BY sid"
            assert {count for _, count in connection.execute(by_session).fetchall()} <= {0, 1, 2, 3, 4}
            gone = "SELECT count(*) FROM raygrove_events WHERE sid NOT IN (SELECT sid FROM raygrove_sessions)"
            assert connection.execute(gone).fetchone() == (0,)
