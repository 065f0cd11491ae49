"""LLM agents as nodes, what they hand on, and to whom they may hand over; functions in processes of their own (semantics.md
section 8)."""

from __future__ import annotations

import asyncio
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
    ToolContext,
    node,
)
from actors.errors import AgentFailedError, DefinitionError, RaygroveError
from actors.testing import ScriptedModel
from runtime.settings import Settings
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.support.graphs import ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


def transfer(to: str) -> dict[str, object]:
    return {"call": "transfer_to_agent", "args": {"agent_name": to}}


def test_an_agent_hands_over_once_and_the_answer_of_the_other_is_the_output(deploy: Deploy) -> None:
    expert = ScriptedModel(["It is blue."])
    desk = LlmAgent(name="desk", model=ScriptedModel([transfer("expert")]), sub_agents=[LlmAgent(name="expert", model=expert)])
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), desk, named_node("last"))])) as rt:
        events = run_turn(rt, "what colour?")
        assert ends(events)["wf@1/last@1"] == "last(It is blue.)"
        said = [(event.author, event.node_info.path) for event in events if event.node_info and event.content]
        assert said == [("desk", "wf@1/desk@1"), ("desk", "wf@1/desk@1"), ("expert", "wf@1/desk@1")]
        # The next turn begins with the graph again.
        assert stored(rt)[-1].author == "wf"


def test_an_agent_that_answers_itself_hands_nothing_over(deploy: Deploy) -> None:
    idle = LlmAgent(name="expert", model=ScriptedModel([]))
    desk = LlmAgent(name="desk", model=ScriptedModel(["I know: red."]), sub_agents=[idle])
    with deploy(Graph(name="wf", edges=[(START, desk, named_node("last"))])) as rt:
        assert ends(run_turn(rt, "what colour?"))["wf@1/last@1"] == "last(I know: red.)"


def test_an_empty_answer_is_an_output(deploy: Deploy) -> None:
    silent = LlmAgent(name="silent", model=ScriptedModel([""]), output_key="said")
    with deploy(Graph(name="wf", edges=[(START, silent, named_node("last"))])) as rt:
        assert ends(run_turn(rt, "say nothing"))["wf@1/last@1"] == "last()"
        assert stored_state(rt) == {"said": ""}


def test_an_agent_behind_an_empty_answer_is_asked_the_words_of_the_user(local: Deploy) -> None:
    model = ScriptedModel(["fine"])
    silent, writer = LlmAgent(name="silent", model=ScriptedModel([""])), LlmAgent(name="writer", model=model)
    with local(Graph(name="wf", edges=[(START, silent, writer)])) as rt:
        run_turn(rt, "write it")
    assert [content.text for content in model.requests[0].contents] == ["write it"]


def ask() -> RequestInput:
    schema = {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "note": {"type": "string", "default": None}},
        "required": ["count"],
    }
    return RequestInput(interrupt_id="how_many", message="How many?", response_schema=schema)


def test_an_answer_has_the_form_that_was_asked_for(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, ask, named_node("last"))])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="buy")
        turn.result()
        assert ends(list(turn.answer("how_many", {"count": "3"})))["wf@1/last@1"] == "last({'count': 3, 'note': None})"


def test_what_is_said_beside_calls_is_kept_until_the_final_response(deploy: Deploy) -> None:
    def look() -> str:
        """Look it up."""
        return "found"

    def beside(text: str) -> dict[str, object]:
        return {"parts": [text, {"call": "look"}]}

    model = ScriptedModel([beside("Wait. "), {"call": "look"}, beside("Nearly. "), "Done."])
    desk = LlmAgent(name="desk", model=model, tools=[look], output_key="said")
    with deploy(Graph(name="wf", edges=[(START, desk)])) as rt:
        said = [event.actions.state_delta.get("said") for event in run_turn(rt, "go") if event.text]
        assert said == ["Wait. ", "Wait. Nearly. ", "Done."]


def test_the_failure_of_an_agent_that_has_said_something_is_its_own(deploy: Deploy) -> None:
    def good() -> str:
        """Works."""
        return "g"

    said = LlmAgent(name="said", model=ScriptedModel([{"call": "good"}, ValueError("bad")]), tools=[good])
    silent = LlmAgent(name="silent", model=ScriptedModel([ValueError("bad")]))
    for agent, author in ((said, "said"), (silent, "wf")):
        with deploy(Graph(name="wf", edges=[(START, agent)])) as rt:
            with pytest.raises(AgentFailedError, match="bad"):
                run_turn(rt, "go")
            failed = stored(rt)[-1]
        assert (failed.author, failed.error_code) == (author, "ValueError")
        assert failed.node_info is not None
        assert failed.node_info.path == f"wf@1/{agent.name}@1"


def test_an_agent_that_a_nodes_agent_has_transferred_to_may_transfer_to_its_peers(deploy: Deploy) -> None:
    clerk = ScriptedModel([transfer("expert")])
    agents = [LlmAgent(name="clerk", model=clerk), LlmAgent(name="expert", model=ScriptedModel(["It is blue."]))]
    desk = LlmAgent(name="desk", model=ScriptedModel([transfer("clerk")]), sub_agents=agents)
    with deploy(Graph(name="wf", edges=[(START, desk, named_node("last"))]), settings=Settings(record_requests="on")) as rt:
        events = run_turn(rt, "what colour?")
        assert ends(events)["wf@1/last@1"] == "last(It is blue.)"
        calls = rt.turns.requests("ada", "s1", events[0].invocation_id)
        shown = [
            [tool.parameters for tool in call.request.tools] for call in calls if call.request and call.request.agent == "clerk"
        ]
        assert [names[0]["properties"]["agent_name"]["enum"] for names in shown if names[0]] == [["desk", "expert"]]


def test_the_node_itself_still_transfers_only_downwards(local: Deploy) -> None:
    """Of an agent that a tool runs as a node, those above and beside it are no targets."""
    inner = ScriptedModel(["done"])
    helper = LlmAgent(name="helper", model=inner, sub_agents=[LlmAgent(name="below", model=ScriptedModel([]))])

    async def ask(tool_context: ToolContext) -> object:
        return await tool_context.run_node(helper, "go")

    root = LlmAgent(name="root", model=ScriptedModel([{"call": "ask"}, "ok"]), tools=[ask], sub_agents=[helper])
    with local(root) as rt:
        run_turn(rt, "hi")
    (tool,) = inner.requests[0].tools
    assert tool.parameters is not None
    assert tool.parameters["properties"]["agent_name"]["enum"] == ["below"]


def test_an_agent_that_answers_once_is_not_named_to_its_model(local: Deploy) -> None:
    models = {name: ScriptedModel(["ok"]) for name in ("once", "chat")}
    expert = ScriptedModel(["ok"])
    once = LlmAgent(name="once", model=models["once"], instruction="Judge.", description="Judges.")
    below = LlmAgent(name="below", model=expert, instruction="Know.")
    desk = LlmAgent(name="desk", model=ScriptedModel([transfer("below")]), instruction="Ask.", sub_agents=[below])
    with local(Graph(name="wf", edges=[(START, once, desk)])) as rt:
        run_turn(rt, "hi")
    with local(
        Graph(name="wf", edges=[(START, LlmAgent(name="chat", mode="chat", model=models["chat"], instruction="Judge."))])
    ) as rt:
        run_turn(rt, "hi", session_id="s2")
    assert models["once"].requests[0].system_instruction == "Judge."
    assert models["chat"].requests[0].system_instruction == 'Judge.\n\nYou are an agent. Your internal name is "chat".'
    # One that it has handed over to is in a conversation.
    assert 'Your internal name is "below"' in expert.requests[0].system_instruction


def test_an_agent_sees_in_its_next_step_what_one_beside_it_has_stored(local: Deploy) -> None:
    is_stored = asyncio.Event()

    def write(tool_context: ToolContext) -> None:
        """Write it down."""
        tool_context.state["found"] = 7

    def tell() -> None:
        """Say that it is stored."""
        is_stored.set()

    async def wait() -> None:
        """Wait until it is stored."""
        await is_stored.wait()

    def look(tool_context: ToolContext) -> object:
        """Look at it."""
        return tool_context.state.get("found")

    writer = LlmAgent(name="writer", model=ScriptedModel([{"call": "write"}, {"call": "tell"}, "done"]), tools=[write, tell])
    reader = LlmAgent(name="reader", model=ScriptedModel([{"call": "wait"}, {"call": "look"}, "done"]), tools=[wait, look])
    with local(Graph(name="wf", edges=[(START, (writer, reader))])) as rt:
        responses = [response for event in run_turn(rt, "go") for response in event.function_responses()]
    assert [response.response for response in responses if response.name == "look"] == [{"result": 7}]


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
