"""What may go into nodes and out of them, and what the user has to agree to first (semantics.md section 8)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from actors import (
    START,
    AgentTool,
    Content,
    FunctionNode,
    FunctionResponse,
    FunctionTool,
    Graph,
    JoinNode,
    LlmAgent,
    LongRunningFunctionTool,
    NodeContext,
    Part,
    Placement,
    ToolContext,
    node,
)
from actors.errors import (
    AgentFailedError,
    DefinitionError,
    GraphValidationError,
    InputSchemaError,
    StateSchemaError,
    WorkflowConfigurationError,
)
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.graphs import ends, named_node
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


class Point(BaseModel):
    """A place in a plane."""

    x: int
    y: int = 0


def pay(node_input: Any, amount: int = 3) -> str:
    return f"paid {amount} for {getattr(node_input, 'text', node_input)}"


def decided(call_id: str, *, confirmed: bool) -> Content:
    response = FunctionResponse(id=call_id, name="adk_request_input", response={"confirmed": confirmed})
    return Content(role="user", parts=[Part(function_response=response)])


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_function_that_needs_consent_runs_when_the_user_has_agreed(deploy: Deploy, confirmed: bool) -> None:
    paying = FunctionNode(pay, require_confirmation=True)
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), paying, named_node("last"))])) as rt:
        events = run_turn(rt, "tea", state_delta={"amount": 5})
        [call] = [call for event in events for call in event.function_calls()]
        assert call.args["payload"] == {"tool_name": "pay", "args": {"node_input": "first(tea)", "amount": 5}}
        assert call.id is not None
        found = ends(run_turn(rt, decided(call.id, confirmed=confirmed)))
        expected: Any = "paid 5 for first(tea)" if confirmed else {"error": "This tool call is rejected."}
        assert found == {"wf@1/pay@1": expected, "wf@1/last@1": f"last({expected})"}


def test_consent_is_asked_for_in_each_round(deploy: Deploy) -> None:
    def decide(ctx: NodeContext, node_input: str) -> str:
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.route = "again" if ctx.state["rounds"] < 2 else "done"
        return node_input

    paying = FunctionNode(pay, require_confirmation=True)
    with deploy(Graph(name="wf", edges=[(START, paying, decide, {"again": paying, "done": named_node("last")})])) as rt:
        [first] = [call for event in run_turn(rt, "tea") for call in event.function_calls()]
        [second] = [call for event in run_turn(rt, decided(str(first.id), confirmed=True)) for call in event.function_calls()]
        assert (str(first.id).split()[-1], str(second.id).split()[-1]) == ("wf@1/pay@1", "wf@1/pay@2")
        assert "wf@1/last@1" in ends(run_turn(rt, decided(str(second.id), confirmed=True)))


def test_consent_is_for_the_turn_that_has_asked_for_it(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, FunctionNode(pay, require_confirmation=True))])) as rt:
        for words in ("tea", "gold"):
            run_turn(rt, words)
        gold, tea = rt.pending(user_id="ada", session_id="s1")
        assert gold.args["payload"]["args"]["node_input"]["parts"] == [{"text": "gold"}]
        assert rt.answer(tea, confirmed=True).result().text == "paid 3 for tea"
        assert rt.answer(gold, confirmed=False).result().output == {"error": "This tool call is rejected."}


@pytest.mark.parametrize(
    ("given", "expected"), [('{"x": 4}', 5), ("4", 5), ('{"x": "4"}', 5)], ids=["arguments", "the only one", "as text"]
)
def test_a_tool_is_a_node(deploy: Deploy, given: str, expected: int) -> None:
    def next_one(x: int, tool_context: ToolContext) -> int:
        """The next number."""
        tool_context.state["seen"] = x
        return x + 1

    with deploy(Graph(name="wf", edges=[(START, FunctionTool(next_one), named_node("last"))])) as rt:
        assert ends(run_turn(rt, given)) == {"wf@1/next_one@1": expected, "wf@1/last@1": f"last({expected})"}
        assert stored_state(rt)["seen"] == 4


def test_what_a_tool_does_not_take_fails_its_node_as_a_wrong_call(deploy: Deploy) -> None:
    def next_one(x: int) -> int:
        """The next number."""
        return x + 1

    with deploy(Graph(name="wf", edges=[(START, FunctionTool(next_one))])) as rt:
        for words in ("four", "{}"):
            with pytest.raises(AgentFailedError, match="wrong arguments for next_one"):
                run_turn(rt, words)
        failed = [event for event in stored(rt) if event.error_code]
        assert [(event.error_code, event.node_info and event.node_info.path) for event in failed] == [
            ("TypeError", "wf@1/next_one@1")
        ] * 2


def test_a_tool_that_needs_consent_is_run_when_the_user_has_agreed(deploy: Deploy) -> None:
    def book(city: str, days: int) -> str:
        """Book it."""
        return f"{days} days in {city}"

    with deploy(Graph(name="wf", edges=[(START, FunctionTool(book, require_confirmation=True))])) as rt:
        events = run_turn(rt, '{"city": "Rome"}', state_delta={"days": 3})
        [call] = [call for event in events for call in event.function_calls()]
        assert call.args["payload"] == {"tool_name": "book", "args": {"city": "Rome", "days": 3}}
        assert ends(run_turn(rt, decided(call.id or "", confirmed=True))) == {"wf@1/book@1": "3 days in Rome"}


def test_tools_that_cannot_be_nodes_are_refused() -> None:
    for wrong in (LongRunningFunctionTool(pay), AgentTool(LlmAgent(name="helper", model="m"))):
        with pytest.raises(DefinitionError, match="no node of a graph"):
            Graph(name="wf", edges=[(START, wrong)])


def test_consent_without_a_second_call_is_refused() -> None:
    with pytest.raises(WorkflowConfigurationError, match="rerun_on_resume"):
        FunctionNode(pay, require_confirmation=True, rerun_on_resume=False)


def test_the_input_and_the_output_of_a_graph_fit_its_schemas(deploy: Deploy) -> None:
    def shift(node_input: dict[str, int]) -> dict[str, Any]:
        return {"x": str(node_input["x"] + 1), "z": 1}

    inner = Graph(name="inner", input_schema=Point, output_schema=Point, edges=[(START, shift)])
    with deploy(Graph(name="wf", edges=[(START, inner, named_node("last"))])) as rt:
        assert ends(run_turn(rt, '{"x": "5"}'))["wf@1/last@1"] == "last({'x': 6, 'y': 0})"
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, "nope")
        assert ends(run_turn(rt, '{"x": 1}'))["wf@1/last@1"] == "last({'x': 2, 'y': 0})"


def test_a_message_of_another_form_than_the_root_asks_for_is_refused_before_it_is_stored(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", input_schema=Point, edges=[(START, named_node("last"))])) as rt:
        for words, wrong in (("nope", "it is not of type object"), ('{"y": 1}', "it lacks 'x'")):
            with pytest.raises(InputSchemaError, match=f"input_schema of 'wf': {wrong}"):
                run_turn(rt, words)
        assert rt.sessions.get("ada", "s1") is None
        # What stands in it is read as pydantic reads it.
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, '{"x": "one"}')
        assert ends(run_turn(rt, '{"x": "1"}'))["wf@1/last@1"] == "last({'x': 1, 'y': 0})"


def test_a_graph_that_takes_a_text_takes_the_words_of_the_user_as_they_are(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", input_schema=str, edges=[(START, named_node("last"))])) as rt:
        for words in ("5", "null", '"quoted"', '{"a": 1}'):
            assert ends(run_turn(rt, words))["wf@1/last@1"] == f"last({words})"


def test_a_graph_begins_without_words_too(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, named_node("last"))])) as rt:
        assert ends(run_turn(rt, ""))["wf@1/last@1"] == "last()"


def test_an_input_that_does_not_fit_fails_the_graph_before_the_node_runs(deploy: Deploy) -> None:
    def shift(node_input: Point) -> int:
        return node_input.x

    asked = LlmAgent(name="asked", model=PatternModel([(".*", "never")]), input_schema=Point)
    below = Graph(name="below", input_schema=Point, edges=[(START, named_node("never"))])
    for wanting in (shift, asked, below):
        with deploy(Graph(name="wf", edges=[(START, named_node("first"), wanting)])) as rt:
            with pytest.raises(AgentFailedError, match="ValidationError"):
                run_turn(rt, "go", session_id="s1")
            failed = stored(rt)[-1]
            assert (failed.error_code, failed.node_info and failed.node_info.path) == ("ValidationError", "wf@1")


@node
def place(node_input: Point) -> int:
    return node_input.x


def failures(rt: Runtime) -> list[tuple[str, str | None, str | None]]:
    return [
        (event.author, event.error_code, event.node_info.path if event.node_info else None)
        for event in stored(rt)
        if event.error_code
    ]


def test_an_input_that_fits_no_node_is_an_error_of_the_function_that_gave_it(deploy: Deploy) -> None:
    never = LlmAgent(name="never", model=ScriptedModel([]), input_schema=Point)
    below = Graph(name="below", input_schema=Point, edges=[(START, named_node("last"))])

    @node(rerun_on_resume=True)
    async def careful(ctx: NodeContext, node_input: Any) -> list[str]:
        caught = []
        for each in (place, never, below):
            try:
                await ctx.run_node(each, {"y": 1})
            except ValidationError as error:
                caught.append(type(error).__name__)
        return caught

    @node(rerun_on_resume=True)
    async def careless(ctx: NodeContext, node_input: Any) -> Any:
        return await ctx.run_node(place, {"y": 1})

    with deploy(Graph(name="wf", edges=[(START, careful, careless)], sub_agents=[never, below])) as rt:
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, "go")
        assert ends(stored(rt))["wf@1/careful@1"] == ["ValidationError"] * 3
        assert failures(rt) == [("wf", "ValidationError", "wf@1/careless@1")]


def test_an_item_that_fits_no_node_is_an_error_of_the_worker(deploy: Deploy) -> None:
    def items() -> list[Any]:
        return [{"y": 1}]

    with deploy(Graph(name="wf", edges=[(START, items, node(place, parallel_worker=True))])) as rt:
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, "go")
        assert failures(rt) == [("wf", "ValidationError", "wf@1/place@1")]


def test_with_partial_results_it_is_the_error_of_its_item(local: Deploy) -> None:
    def items() -> list[Any]:
        return [{"y": 1}, {"x": 2}]

    worker = node(place, parallel_worker=True, partial_results=True)
    with local(Graph(name="wf", edges=[(START, items, worker)])) as rt:
        found = ends(run_turn(rt, "go"))["wf@1/place@1"]
    assert (found["results"], found["errors"][0]["index"]) == ([None, 2], 0)


def nothing() -> None:
    """Gives nothing."""


def test_what_is_given_nothing_runs_whatever_input_it_wants(deploy: Deploy) -> None:
    model = ScriptedModel(["fine"])
    asked = LlmAgent(name="asked", model=model, input_schema=Point)
    below = Graph(name="below", input_schema=Point, edges=[(START, named_node("last"))])
    with deploy(Graph(name="wf", edges=[(START, nothing, asked), (asked, named_node("then"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/then@1"] == "then(fine)"
    with deploy(Graph(name="wf", edges=[(START, nothing, below)])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/below@1/last@1"] == "last(None)"
    with deploy(Graph(name="wf", edges=[(START, nothing, place)])) as rt:
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, "go")
        # A function that can do nothing with nothing says so itself.
        assert failures(rt)[-1] == ("wf", "ValidationError", "wf@1/place@1")


@pytest.mark.parametrize("wrong", [{"x": 1}, 1.5, [["a"]]])
def test_a_route_that_is_none_fails_its_node(wrong: Any, deploy: Deploy) -> None:
    def choose(ctx: NodeContext) -> str:
        ctx.route = wrong
        return "chosen"

    with deploy(Graph(name="wf", edges=[(START, choose), (choose, {"a": named_node("a")})])) as rt:
        with pytest.raises(AgentFailedError, match="ValidationError"):
            run_turn(rt, "go")
        # What it returns is said before its route.
        assert ends(stored(rt)) == {"wf@1/choose@1": "chosen"}
        assert failures(rt) == [("wf", "ValidationError", "wf@1/choose@1")]


def test_the_parts_of_a_join_fit_its_schema(deploy: Deploy) -> None:
    def one() -> str:
        return "1"

    def two() -> int:
        return 2

    with deploy(Graph(name="wf", edges=[(START, (one, two), JoinNode("both", input_schema=int))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/both@1"] == {"one": 1, "two": 2}


def test_a_node_that_gives_nothing_fits_the_schema_of_a_join(local: Deploy) -> None:
    def one() -> int:
        return 1

    def none() -> None: ...

    with local(Graph(name="wf", edges=[(START, (one, none), JoinNode("both", input_schema=int))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/both@1"] == {"one": 1, "none": None}


def test_an_agent_is_asked_what_fits_its_input_schema(deploy: Deploy) -> None:
    def give() -> dict[str, Any]:
        return {"x": "3", "more": True}

    model = PatternModel([('^{"x": 3, "y": 0}$', "as it should be")])
    asked = LlmAgent(name="asked", model=model, input_schema=Point)
    with deploy(Graph(name="wf", edges=[(START, give, asked)])) as rt:
        assert [event.text for event in run_turn(rt, "go") if event.text] == ["as it should be"]


def test_two_nodes_with_other_schemas_on_an_edge_are_refused() -> None:
    one = LlmAgent(name="one", model="m", output_schema=Point)
    two = LlmAgent(name="two", model="m", input_schema=type("Other", (Point,), {}))
    with pytest.raises(GraphValidationError, match="another input_schema"):
        Graph(name="wf", edges=[(START, one, two)])


def test_functions_use_what_the_state_schema_has_and_nothing_else(deploy: Deploy) -> None:
    def good(ctx: NodeContext) -> None:
        ctx.state["x"] = 1
        ctx.state["user:any"] = "thing"

    def bad(ctx: NodeContext) -> None:
        ctx.state["x"] = 2
        ctx.state["q"] = 1

    with deploy(Graph(name="wf", state_schema=Point, edges=[(START, good, bad)])) as rt:
        with pytest.raises(StateSchemaError, match="'q'"):
            run_turn(rt, "go")
        # What fits is kept, as of any function that fails.
        assert stored_state(rt) == {"x": 2, "user:any": "thing"}

    def takes(q: int) -> int:
        return q

    with pytest.raises(StateSchemaError, match="'q'"):
        Graph(name="wf", state_schema=Point, edges=[(START, takes)])


@pytest.mark.parametrize("placement", [None, Placement(num_cpus=0.01)])
def test_graphs_in_a_graph_have_its_state_schema_unless_they_have_one(deploy: Deploy, placement: Placement | None) -> None:
    def write(ctx: NodeContext, q: int = 0) -> int:
        # What a function takes is checked where the schema stands alone.
        ctx.state["x"] = 1
        ctx.state["q"] = 1
        return q

    class Other(BaseModel):
        x: int
        q: int

    def tree(**fields: Any) -> Graph:
        writing = FunctionNode(write, placement=placement)
        below = Graph(name="below", edges=[(START, Graph(name="lowest", edges=[(START, writing)]))], **fields)
        return Graph(name="wf", state_schema=Point, edges=[(START, below)])

    with deploy(tree()) as rt, pytest.raises(StateSchemaError, match="'q'"):
        run_turn(rt, "go")
    with deploy(tree(state_schema=Other)) as rt:
        run_turn(rt, "go", session_id="s2")
        assert stored_state(rt, "s2") == {"x": 1, "q": 1}


def test_a_run_without_output_leads_on_only_where_that_is_not_waited_for(deploy: Deploy) -> None:
    def collect(ctx: NodeContext, node_input: Any) -> Any:
        ctx.state["seen"] = ctx.state.get("seen", 0) + 1
        return "both" if ctx.state["seen"] == 2 else None

    collecting = FunctionNode(collect, wait_for_output=True)
    edges = [(START, (named_node("a"), named_node("b")), collecting, named_node("last"))]
    with deploy(Graph(name="wf", edges=edges)) as rt:
        found = ends(run_turn(rt, "go"))
        assert found["wf@1/last@1"] == "last(both)"
        assert "wf@1/last@2" not in found
