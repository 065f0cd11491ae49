"""A thousand schedules out of ten thousand are due in one second, and the Session actor is killed meanwhile.

`make test-full` has a few of them due.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.machine.terminal import Tell
from tests.support.polling import until
from tests.support.runtimes import Deploy

AT_ONCE = 200
MOST_S = 5.0
"""In which all turns that are due have begun."""

KILL_S = 0.3
"""How long after the due time the Session actor is killed."""


class Schedules(NamedTuple):
    """How many there are, how many of them are due, and how long it may take to create them."""

    kept: int
    due: int
    ahead_s: float


MANY, FEW = Schedules(10_000, 1_000, 90.0), Schedules(400, 100, 12.0)


async def create_all(rt: Runtime, made: Schedules, due_s: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with room:
            at = due_s if number < made.due else due_s + 86_400 + number
            await rt.aio.schedules.create(f"n-{number}", user_id=f"user-{number % 500}", message="tick", at=at)

    await asyncio.gather(*map(create, range(made.kept)))


def begun_late_s(rt: Runtime, made: Schedules, *, kills: bool) -> list[float]:
    """Create schedules and wait for their turns. Returns how long after its due time each turn has begun, the soonest first."""
    due_s = int(time.time() + made.ahead_s)
    asyncio.run(create_all(rt, made, due_s))
    assert time.time() < due_s, "creating them took too long"
    # A process for the agent is there before.
    rt.run(user_id="user-0", session_id="first", message="hi").result()
    pid = rt.statistics().session.pid
    time.sleep(max(0.0, due_s + KILL_S - time.time()))
    if kills:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(rt.turns.list(state="finished", limit=made.due + 10)) > made.due)
    turns = [turn for turn in rt.turns.list(limit=2 * made.due) if turn.session_id != "first"]
    assert len(turns) == len({turn.session_id for turn in turns}) == made.due
    assert sum(1 for _ in rt.schedules.list(limit=made.kept + 1)) == made.kept - made.due
    assert (rt.statistics().session.pid != pid) == kills
    late_s = sorted(turn.begun_s - due_s for turn in turns)
    assert late_s[0] >= 0
    return late_s


def echo() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_turns_that_are_due_at_once_all_begin_once_though_the_session_actor_is_killed(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(echo(), app_name="due-few") as rt:
        begun_late_s(rt, FEW, kills=True)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("kills", [True, False], ids=["killed", "undisturbed"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_thousand_turns_that_are_due_at_once_all_begin_once(
    tmp_path: Path, tell: Tell, request: pytest.FixtureRequest, kind: str, kills: bool
) -> None:
    store = {"session_store": request.getfixturevalue("own_server").url} if kind == "postgresql" else {}
    # The server is that of both cases.
    with Deploy("ray", tmp_path)(echo(), app_name=f"due-{kills}", **store) as rt:
        late_s = begun_late_s(rt, MANY, kills=kills)
    half_s, all_s = late_s[MANY.due // 2], late_s[-1]
    tell(f"{kind}: {MANY.due:,} of {MANY.kept:,} schedules: half begun after {half_s:.2f} s, all after {all_s:.2f} s")
    assert late_s[-1] < MOST_S
