"""Each agent that is spoken to is a Ray actor of its own; the others are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.support.runtimes import Deploy, ray_actor_of, run_turn

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(3, of="module")]


def tree() -> LlmAgent:
    model = PatternModel([("bill", {"transfer": "billing"}), ("", "hello")])
    answers = PatternModel([("", "paid")])
    return LlmAgent(
        name="concierge",
        model=model,
        sub_agents=[LlmAgent(name="billing", model=answers), LlmAgent(name="shipping", model=answers)],
    )


def test_agents_live_when_they_are_spoken_to_and_not_before(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(tree()) as rt:
        assert rt.statistics().agents == {}
        run_turn(rt, "hello")
        assert set(rt.statistics().agents) == {"concierge"}
        run_turn(rt, "my bill please")
        agents = rt.statistics().agents
        assert set(agents) == {"concierge", "billing"}
        assert agents["concierge"].counts["runs"] == 2
        assert agents["billing"].counts["runs"] == 1
        assert agents["billing"].actor.startswith("test/host/")
        assert ray_actor_of(rt, "billing") != ray_actor_of(rt, "concierge")


def test_every_actor_has_a_process_of_its_own(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(tree()) as rt:
        run_turn(rt, "my bill please")
        seen = rt.statistics()
        named = {seen.session.actor, seen.runner.actor, *(agent.actor for agent in seen.agents.values())}
        pids = {seen.session.pid, seen.runner.pid, *(agent.pid for agent in seen.agents.values())}
        assert named >= {"test/session", "test/runner"}
        assert len(named) == len(pids) == 4


def test_closing_leaves_no_actor_and_no_process(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(tree()) as rt:
        run_turn(rt, "my bill please")
        seen = rt.statistics()
    everybody = [seen.session, seen.runner, *seen.agents.values()]
    for actor in everybody:
        with pytest.raises(ValueError, match=actor.actor):
            ray.get_actor(actor.actor, namespace=Settings().namespace)
        assert not Path(f"/proc/{actor.pid}").exists()
