"""Agents on Ray: more of them than processes, replicas, agents that share a process, and agents that cannot be placed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray

from actors import CustomAgent, Event, InvocationContext, LlmAgent, LlmRequest, LlmResponse, Placement
from actors.errors import PlacementError
from actors.layers.trees.process_groups import ProcessGroup
from actors.messages.content import Content
from actors.testing import PatternModel
from runtime.cluster.processes.placing import needs, ray_options, start_placed
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(2, of="module")]

MANY = [f"a{number}" for number in range(6)]


class ProcessTellingAgent(CustomAgent):
    """Says the id of its process."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text(str(os.getpid()), role="model"))


class AgentWithGuest(CustomAgent):
    """Runs its child, then says the id of its own process."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.run_agent("guest")
        yield Event(content=Content.of_text(str(os.getpid()), role="model"))


class CountingModel:
    """Says how many contents it gets, and whether its process had loaded Google's SDK before."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        text = f"{len(request.contents)} {'google.genai' in sys.modules}"
        yield LlmResponse(content=Content.of_text(text, role="model"))


def tree() -> LlmAgent:
    answers = PatternModel([], default="ok")
    painter = Placement(resources={"paint": 1}, num_gpus=1)
    children: list[Any] = [
        *(LlmAgent(name=name, model=answers) for name in MANY),
        ProcessTellingAgent(name="twin", placement=Placement(replicas=2)),
        AgentWithGuest(name="house", sub_agents=[ProcessTellingAgent(name="guest", placement=Placement(colocate="parent"))]),
        LlmAgent(name="painter", model=answers, placement=painter),
        *(ProcessTellingAgent(name=name, placement=Placement(num_cpus=2.5)) for name in ("big", "bigger")),
    ]
    ways: list[tuple[str, Any]] = [(f"go {child.name}$", {"transfer": child.name}) for child in children]
    model = PatternModel(ways, default="hello")
    return LlmAgent(name="root", model=model, sub_agents=children)


@pytest.fixture
def rt(local_ray: str, tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings(spare_hosts=1, max_live_agents=3)
    with Deploy("ray", tmp_path)(tree(), app_name="pool", settings=settings) as runtime:
        yield runtime


def counted(rt: Runtime, name: str) -> int:
    return rt.statistics().runner.counts[name]


def wait_until(rt: Runtime, name: str, number: int) -> None:
    until_s = time.monotonic() + 60
    while counted(rt, name) != number:
        assert time.monotonic() < until_s, f"{name} never was {number}"


def answered_by(rt: Runtime, message: str, session_id: str) -> tuple[str, str]:
    return author_texts(run_turn(rt, message, session_id))[-1]


def test_the_first_agent_moves_into_a_process_that_stands_ready(rt: Runtime) -> None:
    wait_until(rt, "spares", 1)
    (spare,) = rt.statistics().runner.spare_pids
    assert answered_by(rt, "hi", "first") == ("root", "hello")
    assert rt.statistics().agents["root"].pid == spare
    wait_until(rt, "spares", 1)
    assert counted(rt, "hosts") == 1


def test_many_sessions_speak_to_more_agents_than_there_are_processes_and_all_are_answered(rt: Runtime) -> None:
    def talk(number: int) -> list[tuple[str, str]]:
        agent = MANY[number % len(MANY)]
        session_id = f"many{number}"
        # The second message goes to the agent that spoke last, in whichever process it is by then.
        return [answered_by(rt, text, session_id) for text in (f"go {agent}", "and now?", "go on")]

    with ThreadPoolExecutor(18) as sessions:
        said = list(sessions.map(talk, range(18)))
    assert said == [[(MANY[number % len(MANY)], "ok")] * 3 for number in range(18)]
    seen = rt.statistics()
    assert 1 < seen.runner.counts["hosts"] <= 3
    assert len({agent.pid for agent in seen.agents.values()}) == seen.runner.counts["hosts"]
    # Agents stay side by side, so none has to move in a second time.
    assert [answered_by(rt, f"go {agent}", f"alone {agent}") for agent in MANY] == [(agent, "ok") for agent in MANY]
    seen = rt.statistics()
    assert (seen.runner.counts["activations"], seen.runner.counts["passivations"]) == (len(MANY) + 1, 0)
    # Statistics and the titles of processes tell which agent lives where.
    assert set(seen.agents) == {"root", *MANY}
    assert (seen.runner.counts["max_hosts"], seen.runner.host_limit) == (3, "max_live_agents says so")
    assert {agent for process in seen.processes.values() for agent in process.agents} == set(seen.agents)
    for name, process in seen.processes.items():
        assert {(seen.agents[agent].actor, seen.agents[agent].pid) for agent in process.agents} == {(name, process.pid)}
        # Ray puts the title up as soon as a call has ended.
        title = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert title.startswith(f"ray::AgentHost[{process.agents[0]}")


def test_a_session_always_speaks_to_the_same_replica(rt: Runtime) -> None:
    where = {f"twin{number}": answered_by(rt, "go twin", f"twin{number}") for number in range(6)}
    agents = rt.statistics().agents
    assert {pid for _, pid in where.values()} == {str(agents[name].pid) for name in ("twin", "twin/1")}
    assert agents["twin"].pid != agents["twin/1"].pid
    runs = {name: agents[name].counts["runs"] for name in ("twin", "twin/1")}
    assert sum(runs.values()) == 6
    again = {session: answered_by(rt, "go twin", session) for session in where}
    assert again == where
    assert {name: rt.statistics().agents[name].counts["runs"] for name in runs} == {name: 2 * runs[name] for name in runs}


def test_who_lives_with_its_parent_is_found_in_its_process(rt: Runtime) -> None:
    (_, guest), (_, house) = author_texts(run_turn(rt, "go house", "house"))[-2:]
    seen = rt.statistics().agents
    assert guest == house == str(seen["house"].pid) == str(seen["guest"].pid)
    assert seen["house"].actor == seen["guest"].actor


def test_no_place_at_all_fails_the_turn_with_what_is_missing_and_nothing_else(rt: Runtime) -> None:
    with pytest.raises(PlacementError, match=r"'painter' cannot be placed: it asks for 1 GPU, 1 paint, and .* has no GPU"):
        run_turn(rt, "go painter", "painter")
    assert (stored(rt, "painter")[-1].author, stored(rt, "painter")[-1].error_code) == ("painter", "PlacementError")
    assert answered_by(rt, "go a0", "elsewhere") == ("a0", "ok")


def test_who_is_idle_gives_back_what_another_asks_for(rt: Runtime) -> None:
    _, big = answered_by(rt, "go big$", "big")
    _, bigger = answered_by(rt, "go bigger", "bigger")
    assert big != bigger
    assert "big" not in rt.statistics().agents


def test_what_was_lost_with_a_process_lives_again_when_it_is_spoken_to(rt: Runtime) -> None:
    before = answered_by(rt, "go twin", "lost")
    os.kill(int(before[1]), signal.SIGKILL)
    author, pid = answered_by(rt, "go twin", "lost")
    assert author == "twin"
    assert pid != before[1]


@pytest.mark.full
def test_who_was_put_to_sleep_remembers_from_the_log(tmp_path: Path) -> None:
    settings = Settings(spare_hosts=1, idle_timeout_s=0.2)
    gemini = LlmAgent(name="gemini", model="gemini-2.5-flash")
    root = LlmAgent(name="root", model=CountingModel(), sub_agents=[gemini])
    with Deploy("ray", tmp_path)(root, settings=settings) as rt:
        wait_until(rt, "spares", 1)
        assert author_texts(run_turn(rt, "hi")) == [("root", "1 True")]
        wait_until(rt, "hosts", 0)
        assert rt.statistics().agents == {}
        assert author_texts(run_turn(rt, "hi")) == [("root", "3 True")]
        assert counted(rt, "activations") == 2


async def test_resources_that_others_keep_are_not_waited_for_longer_than_said(local_ray: str) -> None:
    holder: Any = ray.remote(num_cpus=1)(ResourceHolder).remote()
    await holder.__ray_ready__.remote()
    home = ProcessGroup("hungry", Placement(num_cpus=4))
    asked: list[Any] = []

    def start() -> Any:
        asked.append(ray.remote(ResourceHolder).options(**ray_options(needs(home.placement))).remote())
        return asked[-1]

    with pytest.raises(PlacementError, match=r"'hungry' cannot be placed: it asks for 4 CPU, and others did not leave it"):
        await start_placed(start, home, Settings(placement_timeout_s=0.3))
    with pytest.raises(ray.exceptions.RayActorError):
        await asked[0].__ray_ready__.remote()
    ray.kill(holder)


class ResourceHolder:
    """Holds Ray resources."""
