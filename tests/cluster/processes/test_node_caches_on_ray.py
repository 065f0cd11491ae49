"""The memory for caches that the processes of a node share on Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from actors.messages.config import MIB
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

SESSIONS, TEXT = 60, "x" * 200_000

ROOM = 8 * MIB


def taken(rt: Runtime) -> int:
    """Bytes of all caches."""
    seen = rt.statistics()
    views = sum(agent.counts["bytes_of_views"] for agent in seen.agents.values())
    return seen.session.counts["bytes_in_memory"] + views


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_all_processes_together_take_no_more_than_the_memory_for_caches(tmp_path: Path) -> None:
    helper = LlmAgent(name="helper", model=PatternModel([("long", TEXT)], default="ok"))
    root = LlmAgent(name="root", model=PatternModel([("long|go", {"transfer": "helper"})], default="ok"), sub_agents=[helper])
    with Deploy("ray", tmp_path)(root, settings=Settings(max_cache_bytes=ROOM, max_live_agents=2)) as rt:
        for number in range(SESSIONS):
            run_turn(rt, "long", f"s{number}")
        seen = rt.statistics()
        assert len({seen.session.pid, *(agent.pid for agent in seen.agents.values())}) == 3
        # What was used lately is kept for some seconds, and as often each process looks what the others take.
        until(lambda: run_turn(rt, "go", "again") and taken(rt) <= ROOM)
