"""Actors are lost around due times: each due time makes its turn, and makes it once.

Schedules of a deployment with several Session actors and Runners, and processes that are killed around due times.
"""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import ScheduleExistsError, ScheduleNotFoundError
from actors.layers.schedules.messages import AwaitDue, WatchSchedules
from actors.messages import protocol as p
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.testing import FrozenClock
from tests.acceptance.schedules.test_schedules import Talker
from tests.support.fixtures.lossy_engine import LossyEngine, Process, lossy_runtime
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard

MINUTES = 4
SESSIONS = ("s1", "s2")
AT: tuple[type[p.Message], ...] = (AwaitDue, p.OpenTurn, p.Invoke, p.Append)


class Losses:
    """Loses actors at the first, the second … message of a kind."""

    def __init__(self, engine: LossyEngine, who: str, at: type[p.Message], number: int, *, handled: bool) -> None:
        self._engine = engine
        self._who = who.split(" and ")
        self._at = at
        self._left = number
        self._handled = handled

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, self._at) and handled == self._handled:
            self._left -= 1
            if self._left == 0:
                await self._engine.lose(*self._who)


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


def told(rt: Runtime, session_id: str) -> list[tuple[str, list[str]]]:
    """The turns of a session in order: the due time of each, and what was said in it."""
    turns: dict[str, list[str]] = {}
    for event in stored(rt, session_id):
        turns.setdefault(event.invocation_id, []).append(event.text)
    return [(invocation_id.rpartition("-")[2], said) for invocation_id, said in turns.items()]


def play(folder: Path, who: str, at: type[p.Message], number: int, *, handled: bool) -> list[str]:
    clock = FrozenClock()
    rt, engine = lossy_runtime(root(), folder, clock=clock)
    with rt:
        rt._client.run(engine.runner.ask(WatchSchedules()))
        for session in SESSIONS:
            rt.schedules.create(session, user_id="ada", message="tick", every=60)
        engine.meddler = Losses(engine, who, at, number, handled=handled)
        # A Runner that cannot be heard asks again within seconds.
        clock.advance(MINUTES * 60 + 50)
        for session in SESSIONS:
            turns = told(rt, session)
            assert [said for _, said in turns] == [["tick", "ok"]] * MINUTES
            assert len({due for due, _ in turns}) == MINUTES
            assert rt.schedules.get(session, user_id="ada").turns == MINUTES
        return engine.lost


@pytest.mark.sampled(4, full=4)
@pytest.mark.parametrize("at", AT, ids=lambda at: at.__name__)
@pytest.mark.parametrize("who", ["session", "runner", "runner and session"])
def test_whichever_actor_is_lost_each_due_time_makes_one_turn(tmp_path: Path, who: str, at: type[p.Message]) -> None:
    for handled in (False, True):
        for number in (1, 2, 4):
            folder = tmp_path / f"{handled}-{number}"
            folder.mkdir()
            assert play(folder, who, at, number, handled=handled)


def test_a_due_time_that_was_refused_and_is_still_due_waits_for_no_other_turn(tmp_path: Path) -> None:
    """As when it was about to begin while its schedule was being paused, which the store then refused."""
    talker, refused = Talker(), list[str]()

    async def refuse(sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, p.OpenTurn) and message.due is not None and message.key.session == "s2" and not refused:
            refused.append(message.due.name)
            raise ScheduleNotFoundError(message.due.name, "ada")

    clock = FrozenClock()
    rt, engine = lossy_runtime(talker.agent(), tmp_path, clock=clock)
    with rt:
        rt._client.run(engine.runner.ask(WatchSchedules()))
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        for session in SESSIONS:
            rt.schedules.create(session, user_id="ada", message="tick", every=60)
        engine.meddler = refuse
        # It is looked at again within a second.
        clock.advance(65)
        until(lambda: [said for _, said in told(rt, "s2")] == [["tick", "ok"]])
        assert refused == ["s2"]
        rt._client.call_soon(talker.gate.set)
        turn.result()


OFTEN = Settings(min_schedule_interval_s=1)


def turns(rt: Runtime, session_id: str) -> list[list[str]]:
    """What was said in each turn of a session, in order."""
    found: dict[str, list[str]] = {}
    for event in stored(rt, session_id):
        found.setdefault(event.invocation_id, []).append(event.text)
    return list(found.values())


def test_each_session_actor_has_the_schedules_of_its_sessions(tmp_path: Path, server: str) -> None:
    clock = FrozenClock()
    with ShardedDeploy("local", tmp_path, server)(root(), clock=clock) as rt:
        sessions = one_session_per_shard("test", "ada", SHARDS)
        for number, session in enumerate(sessions):
            rt.schedules.create(f"n-{number}", user_id="ada", session_id=session, message="tick", every=60)
        with pytest.raises(ScheduleExistsError):
            rt.schedules.create("n-0", user_id="ada", session_id=sessions[1], message="tick", every=60)
        assert [each.name for each in rt.schedules.list("ada")] == [f"n-{number}" for number in range(SHARDS)]
        clock.advance(3 * 60)
        rt.schedules.pause("n-1", user_id="ada")
        clock.advance(60)
        rt.schedules.resume("n-1", user_id="ada")
        clock.advance(60)
        assert [len(turns(rt, session)) for session in sessions] == [5, 4, 5]
        assert rt.users.delete("ada").schedules == SHARDS
        clock.advance(120)
        assert rt.schedules.list() == []
        assert rt.sessions.list("ada") == []


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_killed_processes_leave_no_due_time_out_and_make_none_twice(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(root(), settings=OFTEN) as rt:
        rt.schedules.create("ping", user_id="ada", message="tick", every=1, missed="all")
        for number in range(4):
            reached = len(turns(rt, "ping")) + 2
            until(lambda reached=reached: len(turns(rt, "ping")) >= reached)  # type: ignore[misc]
            figures = rt.statistics()
            os.kill((figures.session if number % 2 else figures.runner).pid, signal.SIGKILL)
        reached = len(turns(rt, "ping")) + 3
        until(lambda: len(turns(rt, "ping")) >= reached)
        rt.schedules.pause("ping", user_id="ada")
        until(lambda: not rt.turns.counts().open)
        made = turns(rt, "ping")
        due = [(event.custom_metadata or {})["due"] for event in stored(rt, "ping") if event.author == "user"]
        counted = rt.schedules.get("ping", user_id="ada").turns
    assert made == [["tick", "ok"]] * len(made)
    assert len(set(due)) == len(due)
    # One may begin in the moment in which the schedule is paused.
    assert len(due) - counted in (0, 1)
    seconds = [int(str(each)[17:19]) for each in due]
    assert all((later - earlier) % 60 == 1 for earlier, later in pairwise(seconds))


def test_a_detached_deployment_makes_turns_without_its_program(tmp_path: Path, local_ray: None) -> None:
    rt = Deploy("ray", tmp_path)(root(), detached=True, app_name="alone", settings=OFTEN)
    try:
        with rt:
            rt.schedules.create("ping", user_id="ada", message="tick", every=1)
        with Runtime.connect("alone") as joined:
            before = len(turns(joined, "ping"))
            until(lambda: len(turns(joined, "ping")) > before)
            joined.schedules.delete("ping", user_id="ada")
            assert joined.schedules.list() == []
    finally:
        with Runtime.connect("alone") as joined:
            joined.shutdown()
