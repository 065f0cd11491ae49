"""Functions that are nodes in processes of their own (semantics.md section 8)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from actors import (
    DEFAULT_ROUTE,
    START,
    Content,
    FunctionNode,
    Graph,
    LlmAgent,
    NodeContext,
    Placement,
    RequestInput,
    RetryConfig,
    node,
)
from actors.errors import DefinitionError, RaygroveError
from actors.testing import ScriptedModel
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.support.graphs import ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored

OWN = Placement(num_cpus=0.01)


@node(placement=OWN)
async def judged(ctx: NodeContext, node_input: int, limit: int = 5) -> AsyncIterator[object]:
    ctx.state["process"] = os.getpid()
    yield Content.of_text(f"looking at {node_input}", role="model")
    ctx.route = "high" if node_input > limit else "low"
    yield node_input + 1


def given(node_input: str) -> int:
    return int(node_input)


def told(ctx: NodeContext, node_input: int) -> dict[str, bool | int]:
    return {"is_elsewhere": ctx.state["process"] != os.getpid(), "given": node_input}


def test_a_function_with_a_placement_is_a_node_as_any_other(deploy: Deploy) -> None:
    graph = Graph(name="wf", edges=[(START, given, judged, {"high": told, DEFAULT_ROUTE: named_node("low")})])
    with deploy(graph) as rt:
        events = run_turn(rt, "7")
        assert texts(events) == ["looking at 7"]
        is_elsewhere = deploy.engine == "ray"
        assert ends(events) == {
            "wf@1/given@1": 7,
            "wf@1/judged@1": 8,
            "wf@1/told@1": {"is_elsewhere": is_elsewhere, "given": 8},
        }
        assert ends(run_turn(rt, "3", session_id="s2"))["wf@1/low@1"] == "low(4)"


def test_it_asks_the_user_and_runs_others(deploy: Deploy) -> None:
    def ask() -> RequestInput:
        return RequestInput(interrupt_id="name")

    @node(placement=OWN, rerun_on_resume=True)
    async def greet(ctx: NodeContext, node_input: str) -> str:
        return f"{node_input}, {await ctx.run_node(ask)} {await ctx.run_node(named_node('again'), 'x')}"

    with deploy(Graph(name="wf", edges=[(START, greet, named_node("last"))])) as rt:
        run_turn(rt, "hello")
        events = run_turn(rt, answers(name="Ada"))
        assert ends(events) == {
            "wf@1/greet@1/again@1": "again(x)",
            "wf@1/greet@1": "hello, Ada again(x)",
            "wf@1/last@1": "last(hello, Ada again(x))",
        }


def test_it_is_tried_again_for_each_item(deploy: Deploy) -> None:
    def shaky(ctx: NodeContext, node_input: int) -> int:
        if ctx.attempt_count == 1:
            raise ValueError("at first")
        return 2 * node_input

    def items() -> list[int]:
        return [1, 2]

    placed = FunctionNode(shaky, placement=OWN, retry_config=RetryConfig(max_attempts=2, initial_delay=0.01))
    with deploy(Graph(name="wf", edges=[(START, items, node(placed, parallel_worker=True))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/shaky@1"] == [2, 4]


def test_it_leads_on_with_an_output_only_if_it_waits_for_one(deploy: Deploy) -> None:
    def nothing() -> None:
        pass

    patient = FunctionNode(nothing, placement=OWN, wait_for_output=True)
    with deploy(Graph(name="wf", edges=[(START, patient, named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go")) == {}


def test_its_failure_is_that_of_the_graph(deploy: Deploy) -> None:
    def fail() -> None:
        raise ValueError("no luck")

    with deploy(Graph(name="wf", edges=[(START, FunctionNode(fail, placement=OWN))])) as rt:
        with pytest.raises(RaygroveError, match="no luck"):
            run_turn(rt, "go")
        assert [event.node_info.path for event in stored(rt) if event.error_code and event.node_info] == ["wf@1/fail@1"]


def test_it_works_for_the_calls_of_an_agent(deploy: Deploy) -> None:
    @node(placement=OWN)
    def where(ctx: NodeContext, shift: int) -> bool:
        """Say whether it is elsewhere."""
        return os.getpid() + shift != shift

    model = ScriptedModel([{"call": "where", "args": {"shift": 0}}, "done"])
    with deploy(LlmAgent(name="boss", model=model, tools=[where])) as rt:
        assert texts(run_turn(rt, "go")) == ["done"]


def test_what_is_no_placement_is_refused() -> None:
    with pytest.raises(DefinitionError, match="placement is a Placement"):
        FunctionNode(given, placement="gpu")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="has its own ways"):
        node(LlmAgent(name="m", model=ScriptedModel([])), placement=OWN)
