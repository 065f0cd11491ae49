"""A controller that is started again goes on from the log, wherever that stops."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import AnyComplete, Event, Flow, LlmAgent, MaxLLMCalls, Task
from actors.layers.flows.rules.board import Board
from actors.layers.flows.rules.until import Condition
from actors.messages.flow import FlowMark, TaskNode
from actors.messages.protocol.runs import Failed, Finished
from runtime.driver.turns.turn import stopped_by, task_results
from tests.support.fixtures.flow_fixture import DiggingModel, FlowFixture
from tests.support.machine.folders import quick_folder
from tests.support.tries import tries
from tests.unit.layers.test_flows import AGENTS, graphs


def dig() -> str:
    """Dig."""
    return "gold"


def flow_of(nodes: Sequence[TaskNode], until: Condition | None = None) -> Flow:
    agents = [LlmAgent(name=name, model=DiggingModel(), tools=[dig]) for name in AGENTS]
    tasks = [
        Task(node.name, name=node.name, agents=node.agents, depends_on=node.depends_on, parent=node.parent) for node in nodes
    ]
    return Flow(tasks, agents=agents, name="works", until=until)


async def whole(flow: Flow) -> list[bytes]:
    with quick_folder() as folder:
        fixture = FlowFixture(flow, Path(folder))
        await fixture.open()
        assert isinstance(await fixture.control(), Finished)
        return await fixture.raw()


async def resumed(flow: Flow, events: Sequence[bytes]) -> list[Event]:
    with quick_folder() as folder:
        fixture = FlowFixture(flow, Path(folder))
        await fixture.open(events)
        assert isinstance(await fixture.control(), Finished)
        return await fixture.log()


def finished_by_agents(events: Sequence[Event]) -> Counter[str]:
    """How often a task was finished by an agent that worked on it."""
    marks = [event.flow for event in events if event.flow is not None and event.flow.tasks]
    return Counter(task for mark in marks for task, change in mark.changes.items() if change.status == "successful")


@given(graphs(), st.floats(0, 1, exclude_max=True))
@settings(max_examples=tries(40))
def test_a_log_that_stops_anywhere_is_completed_and_what_is_done_is_not_done_again(
    nodes: tuple[TaskNode, ...], part: float
) -> None:
    flow = flow_of([msgspec.structs.replace(node, max_llm_calls=None) for node in nodes])
    events = asyncio.run(whole(flow))
    cut = int(part * len(events))
    # Agents that work side by side write their events in any order; what was cut off may be anything behind a place.
    log = asyncio.run(resumed(flow, events[:cut]))
    names = [node.name for node in nodes]
    assert finished_by_agents(log) == Counter(names)
    assert {name: task.status for name, task in task_results(log, {}).items()} == dict.fromkeys(names, "successful")
    answered = Counter(response.id for event in log for response in event.function_responses())
    called = Counter(call.id for event in log for call in event.function_calls())
    assert answered == called
    assert set(answered.values()) <= {1}
    # Every answer of a model that was in the log has been used: none was asked for again.
    model_calls = sum(event.flow.llm_calls for event in log if event.flow is not None)
    assert model_calls == sum(1 for event in log if any(event.function_calls()))


@given(graphs(), st.floats(0, 1, exclude_max=True), st.integers(1, 9), st.booleans())
# The round of one agent was lost, and is held back since that of the other may use up what is left.
@example((TaskNode(name="t0", agents=("a",)), TaskNode(name="t1", agents=("b",))), 0.5, 3, True)
@settings(max_examples=tries(40))
def test_a_flow_that_stops_early_does_so_wherever_its_log_stopped_before(
    nodes: tuple[TaskNode, ...], part: float, count: int, by_calls: bool
) -> None:
    until = MaxLLMCalls(count) if by_calls else AnyComplete(count)
    flow = flow_of([msgspec.structs.replace(node, max_llm_calls=None) for node in nodes], until)
    events = asyncio.run(whole(flow))
    log = asyncio.run(resumed(flow, events[: int(part * len(events))]))
    status = Counter(task.status for task in task_results(log, {}).values())
    model_calls = sum(event.flow.llm_calls for event in log if event.flow is not None)
    assert status["successful"] + status["skipped"] == len(nodes)
    assert stopped_by(log) == (str(until) if status["skipped"] else "")
    if status["skipped"]:
        assert model_calls == count if by_calls else status["successful"] >= count
    elif by_calls:
        assert model_calls <= count
    # No call of a model that was made before the end is left without its result.
    called = Counter(call.id for event in log for call in event.function_calls())
    assert called == Counter(response.id for event in log for response in event.function_responses())


@given(graphs())
@settings(max_examples=tries(25))
def test_whoever_works_beside_others_sees_what_was_done_upstream_and_nothing_else_of_them(nodes: tuple[TaskNode, ...]) -> None:
    flow = flow_of(nodes)
    asyncio.run(whole(flow))
    board = Board()
    board.add("works", FlowMark(run="r", created=flow.plan.nodes))
    for agent in flow.members.values():
        assert isinstance(agent, LlmAgent)
        for request in agent.model.requests:
            mine = [tool.name.removeprefix("succeed_") for tool in request.tools if tool.name.startswith("succeed_")]
            upstream = board.upstream(mine)
            for content in request.contents:
                told = re.findall(r"<(\w+):succeed_(\w+)>", content.text)
                assert not told or told[0][0] == agent.name or any(task in upstream for _, task in told)
            # And everything upstream that others did is there: each was finished with words beside it.
            seen = set(re.findall(r":succeed_(\w+)>", " ".join(content.text for content in request.contents)))
            assert upstream - set(mine) <= seen


def test_a_flow_in_which_nobody_can_work_on_a_task_says_so(tmp_path: Path) -> None:
    flow = flow_of([TaskNode(name="t1", agents=("a",)), TaskNode(name="t2", agents=("b",), depends_on=("t1",))])
    nobody = [msgspec.structs.replace(node, agents=()) if node.name == "t2" else node for node in flow.plan.nodes]

    async def run() -> object:
        fixture = FlowFixture(flow, tmp_path, replace(flow.plan, nodes=tuple(nobody)))
        await fixture.open()
        return await fixture.control()

    outcome = asyncio.run(run())
    assert isinstance(outcome, Failed)
    assert outcome.error_code == "FlowStalledError"
    assert "t2" in outcome.error_message
