"""Why each edge of a graph was taken, or was not, as the log and the rules tell afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors import (
    DEFAULT_ROUTE,
    START,
    Event,
    EventActions,
    FunctionNode,
    Graph,
    JoinNode,
    LlmAgent,
    NodeContext,
    RequestInput,
    RetryConfig,
    node,
)
from actors.errors import InvocationNotFoundError
from actors.testing import PatternModel
from runtime import EdgeReason, Runtime
from tests.acceptance.graphs.test_graph_pauses import answers
from tests.support.graphs import double, ends, named_node
from tests.support.runtimes import Deploy, run_turn, stored


def edges(rt: Runtime) -> Sequence[EdgeReason]:
    """The edges of the only turn, whose runs are those that the log has."""
    [turn] = rt.turns.list("ada", "s1")
    found = rt.turns.edges("ada", "s1", turn.invocation_id)
    ran = {event.node_info.path for event in stored(rt) if event.node_info is not None}
    begun = [f"{each.path}/{each.target_run}" for each in found if each.target_run]
    assert len(begun) == len(set(begun))
    assert {path for path in ran if path.rpartition("/")[0] in {each.path for each in found}} <= set(begun)
    return found


def told(reasons: Sequence[EdgeReason]) -> list[tuple[str, str, str, str]]:
    return [(each.source, each.target, each.because, each.target_run) for each in reasons]


def test_a_route_an_edge_without_one_and_the_other_ways(deploy: Deploy) -> None:
    def count(ctx: NodeContext) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.route = ["again", 7] if ctx.state["n"] < 2 else "unknown"
        return 1

    ways = {"again": count, 7: named_node("seven"), "7": named_node("text"), DEFAULT_ROUTE: named_node("last")}
    with deploy(Graph(name="wf", edges=[(START, count), (count, named_node("always")), (count, ways)])) as rt:
        run_turn(rt, "go")
        found = edges(rt)
    assert told(found) == [
        ("START", "count", "always", "count@1"),
        ("count", "always", "always", "always@1"),
        ("count", "count", "route", "count@2"),
        ("count", "seven", "route", "seven@1"),
        ("count", "text", "other", ""),
        ("count", "last", "other", ""),
        ("count", "always", "always", "always@2"),
        ("count", "count", "other", ""),
        ("count", "seven", "other", ""),
        ("count", "text", "other", ""),
        ("count", "last", "default", "last@1"),
    ]
    assert [(list(each.said), each.source_run, each.taken) for each in found[1:3]] == [(["again", 7], "count@1", True)] * 2
    assert (found[4].taken, list(found[-1].said), found[-1].path) == (False, ["unknown"], "wf@1")
    assert found[0].seq == 0
    assert found[1].seq < found[6].seq


@pytest.mark.parametrize("order", ["ab", "ba", "aba", "abba", "baba"])
def test_the_output_of_a_graph_is_that_of_the_terminal_node_that_gave_one_last(local: Deploy, order: str) -> None:
    def count(ctx: NodeContext) -> int:
        n: int = ctx.state.get("n", 0) + 1
        ctx.state["n"] = n
        ctx.route = [order[n - 1], "again"] if n < len(order) else order[n - 1]
        return n

    ways = {"a": named_node("a"), "b": named_node("b"), "again": count}
    below = Graph(name="below", edges=[(START, count), (count, ways)], max_concurrency=1)
    with local(Graph(name="wf", edges=[(START, below, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
    assert ends(events)["wf@1/last@1"] == f"last({order[-1]}({len(order)}))"


def test_a_join_says_for_what_it_waits_and_a_node_that_says_nothing_follows_the_default(deploy: Deploy) -> None:
    both = JoinNode("both")
    first, left, right = (named_node(name) for name in ("first", "left", "right"))
    graph = Graph(
        name="wf",
        edges=[(START, first, (left, right), both), (both, {"no": named_node("never"), DEFAULT_ROUTE: named_node("last")})],
        max_concurrency=1,
    )
    with deploy(graph) as rt:
        run_turn(rt, "go")
        found = [each for each in edges(rt) if each.source != "START"]
    assert told(found) == [
        ("first", "left", "always", "left@1"),
        ("first", "right", "always", "right@1"),
        ("left", "both", "always", ""),
        ("right", "both", "always", "both@1"),
        ("both", "never", "silent", ""),
        ("both", "last", "default", "last@1"),
    ]
    assert [list(each.lacks) for each in found] == [[], [], ["right"], [], [], []]


def test_what_is_told_goes_on_after_questions_failures_and_in_graphs_below(deploy: Deploy) -> None:
    @node(rerun_on_resume=True)
    def ask(ctx: NodeContext) -> object:
        if "fruit" not in ctx.resume_inputs:
            ctx.route = "never"
            return RequestInput(interrupt_id="fruit", message="Which?")
        return Event(output=ctx.resume_inputs["fruit"], actions=EventActions(route="fine"))

    @node(retry_config=RetryConfig(max_attempts=2, initial_delay=0.001))
    def shaky(ctx: NodeContext) -> int:
        if ctx.attempt_count == 1:
            raise LookupError("try again")
        return 2

    def collect(node_input: object, ctx: NodeContext) -> object:
        ctx.state["seen"] = ctx.state.get("seen", 0) + 1
        return "all" if ctx.state["seen"] == 2 else None

    writer = LlmAgent(name="writer", model=PatternModel([], default="written"))
    patient = FunctionNode(collect, wait_for_output=True)
    inner = Graph(name="inner", edges=[(START, (double, shaky), patient, writer)], max_concurrency=1)
    graph = Graph(name="wf", edges=[(START, ask), (ask, {"fine": inner, "never": named_node("lost")})])
    with deploy(graph) as rt:
        run_turn(rt, "2")
        assert told(edges(rt)) == [("START", "ask", "always", "ask@1")]
        run_turn(rt, answers(fruit=4))
        found = edges(rt)
        with pytest.raises(InvocationNotFoundError):
            rt.turns.edges("ada", "s1", "another")
    assert told([each for each in found if each.path == "wf@1"]) == [
        ("START", "ask", "always", "ask@1"),
        ("ask", "inner", "route", "inner@1"),
        ("ask", "lost", "other", ""),
    ]
    assert told([each for each in found if each.graph == "inner"]) == [
        ("START", "double", "always", "double@1"),
        ("START", "shaky", "always", "shaky@1"),
        ("double", "collect", "always", "collect@1"),
        ("shaky", "collect", "always", "collect@2"),
        ("collect", "writer", "patient", ""),
        ("collect", "writer", "always", "writer@1"),
    ]
    assert {each.path for each in found} == {"wf@1", "wf@1/inner@1"}


def test_a_turn_without_graphs_has_no_edges(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        run_turn(rt, "hi")
        assert edges(rt) == []
