"""What runs in a graph, in which order, with which input, and why each edge was taken (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pydantic
import pytest

from actors import (
    DEFAULT_ROUTE,
    START,
    CallbackContext,
    Content,
    CustomAgent,
    Edge,
    Event,
    EventActions,
    FunctionNode,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    LoopAgent,
    NodeContext,
    Plugin,
    RequestInput,
    RetryConfig,
    node,
)
from actors.errors import AgentFailedError, InvocationNotFoundError
from actors.testing import PatternModel, ScriptedModel
from runtime import EdgeReason
from runtime.driver.runtime import Runtime
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.support.graphs import add_one, double, ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


def test_a_chain_hands_on_what_each_function_returns(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, double, add_one)])) as rt:
        events = run_turn(rt, "20")
        assert ends(events) == {"wf@1/double@1": 40, "wf@1/add_one@1": 41}
        assert [list(event.node_info.output_for) for event in events if event.node_info] == [[], ["wf@1"]]
        assert [event.author for event in events] == ["wf", "wf"]
        # Each turn begins at START, and counts anew.
        assert ends(run_turn(rt, "1")) == {"wf@1/double@1": 2, "wf@1/add_one@1": 3}


def test_a_join_waits_for_all_and_has_their_outputs_in_the_order_of_the_edges(deploy: Deploy) -> None:
    async def slow(node_input: int) -> str:
        await asyncio.sleep(0.05)
        return f"slow {node_input}"

    both = JoinNode("both")
    graph = Graph(name="wf", edges=[(START, double, (slow, add_one), both)])
    with deploy(graph) as rt:
        events = run_turn(rt, "1")
    assert ends(events)["wf@1/both@1"] == {"slow": "slow 2", "add_one": 3}
    assert list(ends(events)["wf@1/both@1"]) == ["slow", "add_one"]
    assert {event.node_info.path: event.branch for event in events if event.node_info} == {
        "wf@1/double@1": None,
        "wf@1/slow@1": "slow@1",
        "wf@1/add_one@1": "add_one@1",
        "wf@1/both@1": None,
    }


def test_routes_choose_the_edge_and_a_circle_ends_by_one(deploy: Deploy) -> None:
    def count(ctx: NodeContext) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.route = "again" if ctx.state["n"] < 3 else "done"
        number: int = ctx.state["n"]
        return number

    def last(node_input: int) -> str:
        return f"after {node_input}"

    with deploy(Graph(name="wf", edges=[(START, count), (count, {"again": count, "done": last})])) as rt:
        events = run_turn(rt, "go")
        assert ends(events) == {"wf@1/count@1": 1, "wf@1/count@2": 2, "wf@1/count@3": 3, "wf@1/last@1": "after 3"}
        assert stored_state(rt) == {"n": 3}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("a", {"a"}),
        (["a", "b"], {"a", "b"}),
        (1, {"one"}),
        (True, {"yes"}),
        ("1", {"other"}),
        ([], {"other"}),
        (None, {"other"}),
    ],
)
def test_a_route_is_followed_by_value_and_type(deploy: Deploy, said: Any, expected: set[str]) -> None:
    def choose() -> Event:
        return Event(output="x", actions=EventActions(route=said))

    def named(name: str) -> FunctionNode:
        return FunctionNode(lambda: name, name=name)

    routes: list[tuple[Any, str]] = [("a", "a"), ("b", "b"), (1, "one"), (True, "yes"), (DEFAULT_ROUTE, "other")]
    edges = [Edge(choose, named(name), route) for route, name in routes]
    with deploy(Graph(name="wf", edges=[(START, choose), *edges])) as rt:
        found = ends(run_turn(rt, "go"))
    assert {path.removeprefix("wf@1/").removesuffix("@1") for path in found} - {"choose"} == expected


def test_an_agent_in_a_graph_sees_its_input_and_its_own_run_only(deploy: Deploy) -> None:
    writer = ScriptedModel(["a poem", "another"])
    critic = ScriptedModel(["weak", "good"])
    graph = Graph(
        name="wf",
        edges=[(START, LlmAgent(name="writer", model=writer), LlmAgent(name="critic", model=critic, output_key="verdict"))],
    )
    with deploy(graph) as rt:
        events = run_turn(rt, "Write!")
        assert [(event.author, event.text) for event in events if event.text] == [("writer", "a poem"), ("critic", "weak")]
        run_turn(rt, "Write more!")
        assert stored_state(rt) == {"verdict": "good"}
    asked = [[content.text for content in request.contents] for model in (writer, critic) for request in model.requests]
    assert asked == [["Write!"], ["Write more!"], ["a poem"], ["another"]]


class Facts(pydantic.BaseModel):
    year: int


def test_data_goes_into_an_agent_as_json_and_out_of_it_by_its_output_schema(deploy: Deploy) -> None:
    def place() -> dict[str, str]:
        return {"city": "Köln"}

    def later(node_input: Facts) -> int:
        return node_input.year + 1

    model = ScriptedModel(['{"year": 50}'])
    with deploy(Graph(name="wf", edges=[(START, place, LlmAgent(name="m", model=model, output_schema=Facts), later)])) as rt:
        assert ends(run_turn(rt, "go")) == {"wf@1/place@1": {"city": "Köln"}, "wf@1/m@1": {"year": 50}, "wf@1/later@1": 51}
    assert [content.text for content in model.requests[0].contents] == ['{"city": "Köln"}']


def test_the_tools_of_an_agent_run_in_its_node(deploy: Deploy) -> None:
    def look() -> str:
        """Look it up."""
        return "seen"

    model = ScriptedModel([{"call": "look"}, "I have seen it"])
    with deploy(Graph(name="wf", edges=[(START, LlmAgent(name="m", model=model, tools=[look]))])) as rt:
        events = run_turn(rt, "go")
    assert {event.node_info.path for event in events if event.node_info} == {"wf@1/m@1"}
    assert len(model.requests[1].contents) == 3


def test_a_graph_in_a_graph_gives_the_output_of_its_terminal_node(deploy: Deploy) -> None:
    below = Graph(name="below", edges=[(START, double, add_one)])
    with deploy(Graph(name="wf", edges=[(START, below, FunctionNode(double, name="last"))])) as rt:
        events = run_turn(rt, "1")
    assert ends(events) == {"wf@1/below@1/double@1": 2, "wf@1/below@1/add_one@1": 3, "wf@1/last@1": 6}
    by_path = {event.node_info.path: event for event in events if event.node_info is not None}
    assert by_path["wf@1/below@1/add_one@1"].author == "below"
    assert list(by_path["wf@1/below@1/add_one@1"].node_info.output_for) == ["wf@1/below@1"]  # type: ignore[union-attr]


class Speaker(CustomAgent):
    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        asked = context.user_content.text
        yield Event(content=Content.of_text(f"{asked} heard", role="model"))


def test_a_custom_agent_is_a_node(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, double, Speaker(name="speaker"), named_node("last"))])) as rt:
        assert ends(run_turn(rt, "1"))["wf@1/last@1"] == "last(2 heard)"


def test_functions_get_state_by_name_and_their_context(deploy: Deploy) -> None:
    def remember(ctx: NodeContext, node_input: str) -> None:
        ctx.state["who"] = node_input

    def greet(who: str, greeting: str = "Hello") -> str:
        return f"{greeting} {who}"

    def where(ctx: NodeContext) -> list[object]:
        return [ctx.node_path, ctx.run_id, ctx.attempt_count, ctx.session_id]

    with deploy(Graph(name="wf", edges=[(START, remember, greet, where)])) as rt:
        found = ends(run_turn(rt, "Ada"))
    assert found == {"wf@1/greet@1": "Hello Ada", "wf@1/where@1": ["wf@1/where@1", "1", 1, "s1"]}


def test_generators_show_messages_and_pieces_and_give_one_output(deploy: Deploy) -> None:
    def speak() -> Iterator[object]:
        yield Event(content=Content.of_text("so"), partial=True)
        yield Content.of_text("so it is", role="model")
        yield 3

    with deploy(Graph(name="wf", edges=[(START, speak, double)])) as rt:
        events = run_turn(rt, "go")
        assert [(event.text, bool(event.partial)) for event in events if event.text] == [("so", True), ("so it is", False)]
        assert ends(events) == {"wf@1/speak@1": 3, "wf@1/double@1": 6}


def test_a_second_output_fails_the_node(deploy: Deploy) -> None:
    def speak() -> Iterator[int]:
        yield 1
        yield 2

    with deploy(Graph(name="wf", edges=[(START, speak)])) as rt, pytest.raises(AgentFailedError, match="a second output"):
        run_turn(rt, "go")


def test_a_failing_node_ends_the_graph_with_one_event_that_has_what_it_wrote(deploy: Deploy) -> None:
    def fail(ctx: NodeContext) -> None:
        ctx.state["tried"] = True
        raise ValueError("no luck")

    async def slow() -> str:
        await asyncio.sleep(30)
        return "never"

    with deploy(Graph(name="wf", edges=[(START, (fail, slow), JoinNode("both"))])) as rt:
        with pytest.raises(AgentFailedError, match="no luck"):
            run_turn(rt, "go")
        failed = [event for event in stored(rt) if event.error_code is not None]
        assert [(event.error_code, event.error_message, event.author) for event in failed] == [("ValueError", "no luck", "wf")]
        assert failed[0].node_info is not None
        assert failed[0].node_info.path == "wf@1/fail@1"
        assert failed[0].actions.state_delta == {"tried": True}


def test_a_node_is_tried_again_as_often_as_it_may(deploy: Deploy) -> None:
    @node(retry_config=RetryConfig(max_attempts=3, initial_delay=0.01, exceptions=[KeyError]))
    def unsteady(ctx: NodeContext) -> str:
        if ctx.attempt_count < 3:
            raise KeyError(ctx.attempt_count)
        return f"attempt {ctx.attempt_count}"

    @node(retry_config=RetryConfig(max_attempts=3, initial_delay=0.01, exceptions=["KeyError"]))
    def wrong() -> None:
        raise ValueError("not tried again")

    with deploy(Graph(name="wf", edges=[(START, unsteady, wrong)])) as rt:
        with pytest.raises(AgentFailedError, match="not tried again"):
            run_turn(rt, "go")
        log = stored(rt)
        assert [event.error_code for event in log if event.error_code] == ["KeyError", "KeyError", "ValueError"]
        assert ends(log) == {"wf@1/unsteady@1": "attempt 3"}


def test_a_node_that_takes_too_long_is_stopped(deploy: Deploy) -> None:
    @node(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(30)

    with deploy(Graph(name="wf", edges=[(START, slow)])) as rt:
        with pytest.raises(Exception, match=r"Node 'slow' timed out after 0\.05 seconds"):
            run_turn(rt, "go")
        assert [event.error_code for event in stored(rt) if event.error_code] == ["NodeTimeoutError"]


def test_a_join_that_can_never_run_fails_and_says_so(deploy: Deploy) -> None:
    def choose(ctx: NodeContext) -> None:
        ctx.route = "a"

    a, b, both = named_node("a"), named_node("b"), JoinNode("both")
    with deploy(Graph(name="wf", edges=[(START, choose, {"a": a, "b": b}), ((a, b), both)])) as rt:
        with pytest.raises(Exception, match="join 'both' of graph 'wf' can never run: it waits for 'b'"):
            run_turn(rt, "go")
        [failed] = [event for event in stored(rt) if event.error_code]
        assert (failed.error_code, failed.node_info and failed.node_info.path) == ("StarvedJoinError", "wf@1")


def test_of_several_outputs_the_last_counts_unless_the_graph_has_to_have_one(deploy: Deploy) -> None:
    def graph(*, one_output: bool) -> Graph:
        inner = Graph(name="inner", edges=[(START, double, (add_one, named_node("b")))], one_output=one_output)
        return Graph(name="wf", edges=[(START, inner, named_node("last"))])

    with deploy(graph(one_output=False)) as rt:
        assert "wf@1/last@1" in ends(run_turn(rt, "1"))
    with deploy(graph(one_output=True), app_name="one") as rt:
        with pytest.raises(Exception, match="graph 'inner' has one_output, and multiple terminal nodes gave an output"):
            run_turn(rt, "1")
        assert [event.error_code for event in stored(rt) if event.error_code] == ["SeveralOutputsError"]


def test_a_graph_with_one_output_may_run_its_terminal_node_twice(deploy: Deploy) -> None:
    graph = Graph(name="wf", edges=[(START, (double, add_one)), ((double, add_one), named_node("end"))], one_output=True)
    with deploy(Graph(name="all", edges=[(START, graph, named_node("last"))])) as rt:
        assert {"all@1/wf@1/end@2", "all@1/last@1"} <= ends(run_turn(rt, "1")).keys()


def test_so_many_nodes_run_at_a_time(deploy: Deploy) -> None:
    running: list[int] = [0, 0]

    def counted(name: str) -> FunctionNode:
        async def run() -> int:
            running[0] += 1
            running[1] = max(running)
            await asyncio.sleep(0.01)
            running[0] -= 1
            return running[1]

        return FunctionNode(run, name=name)

    with deploy(Graph(name="wf", edges=[(START, tuple(counted(f"n{i}") for i in range(5)))], max_concurrency=2)) as rt:
        found = ends(run_turn(rt, "go"))
    assert len(found) == 5
    assert max(found.values()) == 2


def test_a_graph_stands_below_other_agents(deploy: Deploy) -> None:
    graph = Graph(name="wf", edges=[(START, named_node("first"), LlmAgent(name="m", model=ScriptedModel(["one", "two"])))])
    host = LlmAgent(name="host", model=ScriptedModel([{"transfer": "wf"}]), sub_agents=[graph])
    with deploy(host) as rt:
        assert texts(run_turn(rt, "go")) == ["one"]
        assert rt.tree("wf").kind == "graph"
    looped = Graph(name="wf", edges=[(START, LlmAgent(name="m", model=ScriptedModel(["one", "two"])))])
    with deploy(LoopAgent(name="lp", sub_agents=[looped], max_iterations=2), app_name="looped") as rt:
        assert texts(run_turn(rt, "go")) == ["one", "two"]


def test_an_agent_may_see_what_the_user_has_said_before(deploy: Deploy) -> None:
    model = ScriptedModel(["one", "two"])
    agent = LlmAgent(name="m", model=model, include_contents="default")
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), agent)])) as rt:
        run_turn(rt, "hi")
        run_turn(rt, "there")
    assert [content.text for content in model.requests[1].contents] == ["hi", "one", "there", "first(there)"]


class Masking(Plugin):
    def on_event_callback(self, callback_context: CallbackContext, event: Event) -> Event:
        return Event(content=Content.of_text("masked", role="model"), output="masked")


def test_a_plugin_changes_what_is_shown_and_not_what_is_handed_on(deploy: Deploy) -> None:
    def choose(ctx: NodeContext) -> str:
        ctx.route = "yes"
        return "chosen"

    graph = Graph(name="wf", edges=[(START, choose, {"yes": named_node("last"), DEFAULT_ROUTE: named_node("other")})])
    with deploy(graph, plugins=[Masking(name="masking")]) as rt:
        events = run_turn(rt, "go")
        assert set(texts(events)) == {"masked"}
        assert ends(stored(rt)) == {"wf@1/choose@1": "chosen", "wf@1/last@1": "last(chosen)"}


def test_of_agents_that_lead_nowhere_the_end_of_one_is_stored(local: Deploy) -> None:
    agents = [LlmAgent(name=name, model=PatternModel([("", "fine")])) for name in ("m", "n", "o")]
    with local(Graph(name="wf", edges=[(START, tuple(agents))])) as rt:
        run_turn(rt, "go")
        assert len([event for event in stored(rt) if event.node_info and event.node_info.is_note]) == 1
    with local(Graph(name="wf", edges=[(START, tuple(agents), JoinNode("all"))])) as rt:
        run_turn(rt, "go", session_id="s2")
        assert len([event for event in stored(rt, "s2") if event.node_info and event.node_info.is_note]) == 3


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
