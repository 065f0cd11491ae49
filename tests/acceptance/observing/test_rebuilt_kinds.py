"""Of each kind of agent and of node requests are rebuilt, or the reason is named why they are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from actors import BaseAgent, Flow, LlmAgent, RunConfig, Task
from actors.agent.actor import _SUPERVISORS
from actors.agent.invocation import Invocation
from actors.definitions.agents.asking_tool import AskingTool
from actors.definitions.graphs.edges import GraphNode
from actors.definitions.graphs.graph import Graph
from actors.definitions.tree import AgentTree
from actors.messages.codec import encode
from actors.messages.topology import CHAT, FLOW, GRAPH, LLM, SINGLE_TURN, TASK
from actors.testing import PatternModel
from tests.acceptance.losses.parts.working_trees import WORKING, WorkingModel, digger
from tests.acceptance.losses.trees import TREES
from tests.support.agents.workflow_agents import answer
from tests.support.fixtures.noted_requests import note_requests
from tests.support.runtimes import Deploy, run_turn, stored

CONFIG = RunConfig(timeout=30)
PROGRAMS: dict[str, Callable[[], BaseAgent]] = {**TREES, **WORKING}

REASONS = {
    "asking_for_a_key": {"the toolset 'LockedToolset' says at each run which tools it has"},
    "long_dynamic": {"what the node was asked was long, and the log does not have it: a function has made it"},
    "supervised": {"a before_model_callback may have changed it"},
    "supervised_side_by_side": {"a before_model_callback may have changed it"},
    "graph_tried_again": {"a before_model_callback may have changed it"},
    "graph_attempts": {"a before_model_callback may have changed it"},
    "graph_of_workflows_pausing": {"a before_model_callback may have changed it"},
}
"""Why some requests of these programs are not rebuilt. All others are."""


def kinds_of(root: BaseAgent) -> Iterator[object]:
    """Kinds and modes of agents, classes of nodes, and classes of tools that ask agents."""
    for agent in AgentTree(root):
        yield agent.kind
        if isinstance(agent, LlmAgent):
            yield agent.mode
            yield from (type(tool) for tool in agent.tools if isinstance(tool, AskingTool))
        if isinstance(agent, Graph):
            yield from map(type, (*agent.nodes.values(), *agent.agents.values()))


def all_below(kind: type) -> set[type]:
    """The classes below one."""
    below: list[type] = kind.__subclasses__()
    return {each for one in below for each in (one, *all_below(one))}


def test_the_programs_have_every_kind_of_agent_and_node() -> None:
    covered = {kind for build in PROGRAMS.values() for kind in kinds_of(build())}
    tools = {kind for kind in all_below(AskingTool) if kind.__module__.startswith("actors.")}
    modes = {TASK, SINGLE_TURN, CHAT}
    assert {*_SUPERVISORS, LLM, GRAPH, FLOW, *modes, *tools, *get_args(GraphNode)} <= covered
    # Each way in which a run sees the log has one of its own in which it is rebuilt: see actors.agent.past_views.
    ways = {kind.__name__ for kind in (Invocation, *all_below(Invocation))}
    assert ways == {"Invocation", "NodeInvocation", "RoundInvocation", "GraphInvocation", "ControllerInvocation"}


@pytest.fixture
def went_out(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """All requests that models got, by their bytes."""
    return note_requests(monkeypatch, PatternModel, WorkingModel)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_answer_of_a_kind_has_its_request_or_the_reason(name: str, local: Deploy, went_out: Counter[bytes]) -> None:
    with local(PROGRAMS[name]()) as rt:
        for number in range(2):
            waits = any(turn.state == "paused" for turn in rt.turns.list())
            try:
                run_turn(
                    rt,
                    answer(rt, "h") if waits and rt.pending(user_id="ada", session_id="s1") else ("more" if number else "go"),
                    run_config=CONFIG,
                )
            except Exception:  # Some graphs want a text, and fail: what was asked before is asked for, too.
                assert number
        calls = [call for turn in rt.turns.list() for call in rt.turns.requests("ada", "s1", turn.invocation_id)]
        answers = {event.id for event in stored(rt) if event.model_version is not None}
    assert {call.event_id for call in calls} == answers
    rebuilt = Counter(encode(call.request) for call in calls if call.request is not None)
    assert rebuilt or name in REASONS
    assert rebuilt <= went_out
    assert {call.omitted for call in calls if call.omitted} <= REASONS.get(name, set())


def test_flows_that_come_with_turns_and_maps_are_rebuilt(deploy: Deploy) -> None:
    agent = digger("a", instruction="{a?}")
    with deploy(LlmAgent(name="root", model=PatternModel([], default="hi"), sub_agents=[agent])) as rt:
        flow = Flow([Task("Find {a?}.", name="t")], agents=[agent])
        rt.run_flow(flow, user_id="ada", session_id="s1").result()
        rt.run_task("Find more.", agents=[agent], user_id="ada", session_id="s1")
        done = rt.map(["one", "two"], user_id="bob")
        texts = [result.text for result in done]
        turns = rt.turns.list()
        calls = [call for turn in turns for call in rt.turns.requests(turn.user_id, turn.session_id, turn.invocation_id)]
    assert texts == ["hi", "hi"]
    assert {call.omitted for call in calls} == {""}
    asked = [call.request.system_instruction for call in calls if call.request is not None and call.agent == "a"]
    assert sum("Find 1." in instruction for instruction in asked) == 1
    assert sum("Find more." in instruction for instruction in asked) == 1
    assert len(calls) == len(asked) + 2


def test_requests_of_nodes_and_rounds_are_rebuilt_on_both_engines(deploy: Deploy) -> None:
    with deploy(WORKING["flow_as_node"]()) as rt:
        run_turn(rt, "go")
        [turn] = rt.turns.list()
        rebuilt = rt.turns.requests("ada", "s1", turn.invocation_id)
    assert {call.omitted for call in rebuilt} == {""}
    assert {call.agent for call in rebuilt} == {"first", "a", "b", "last"}
    last = rebuilt[-1].request
    assert last is not None
    assert last.contents[0].text == "t4: found by a\nrest: found by b"
