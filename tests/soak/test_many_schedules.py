"""A thousand schedules out of ten thousand are due in one second, and the Session actor is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.polling import until
from tests.support.runtimes import Deploy

KEPT, DUE, AT_ONCE = 10_000, 1_000, 200
MOST_S = 5.0
"""In which all turns that are due have begun."""

KILL_S = 0.3
"""How long after the due time the Session actor is killed."""

AHEAD_S = 90.0
"""How long it may take to create them."""


async def create_all(rt: Runtime, due_s: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with room:
            at = due_s if number < DUE else due_s + 86_400 + number
            await rt.aio.schedules.create(f"n-{number}", user_id=f"user-{number % 500}", message="tick", at=at)

    await asyncio.gather(*map(create, range(KEPT)))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("kills", [True, False], ids=["killed", "undisturbed"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_thousand_turns_that_are_due_at_once_all_begin_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, kind: str, kills: bool
) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    store = {"session_store": request.getfixturevalue("own_server").url} if kind == "postgresql" else {}
    # The server is that of both cases.
    with Deploy("ray", tmp_path)(root, app_name=f"due-{kills}", **store) as rt:
        due_s = int(time.time() + AHEAD_S)
        asyncio.run(create_all(rt, due_s))
        assert time.time() < due_s, "creating them took too long"
        # A process for the agent is there before.
        rt.run(user_id="user-0", session_id="first", message="hi").result()
        pid = rt.statistics().session.pid
        time.sleep(max(0.0, due_s + KILL_S - time.time()))
        if kills:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(rt.turns.list(state="finished", limit=DUE + 10)) > DUE)
        turns = [turn for turn in rt.turns.list(limit=2 * DUE) if turn.session_id != "first"]
        late_s = sorted(turn.begun_s - due_s for turn in turns)
        left = sum(1 for _ in rt.schedules.list(limit=KEPT + 1))
        is_killed = rt.statistics().session.pid != pid
    with capsys.disabled():
        print(f"\n{kind}: {DUE:,} of {KEPT:,} schedules: half begun after {late_s[DUE // 2]:.2f} s, all after {late_s[-1]:.2f} s")
    assert len(turns) == len({turn.session_id for turn in turns}) == DUE
    assert late_s[0] >= 0
    assert late_s[-1] < MOST_S
    assert left == KEPT - DUE
    assert is_killed == kills
