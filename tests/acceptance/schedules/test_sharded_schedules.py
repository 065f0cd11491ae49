"""Schedules of a deployment with several Session actors and Runners, and processes that are killed around due times."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import ScheduleExistsError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from runtime.testing import FrozenClock
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard

OFTEN = Settings(min_schedule_interval_s=1)


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


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
