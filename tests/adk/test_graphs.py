"""Workflows of google-adk as graphs of actors and as roots: what only the adapter does; graphs themselves are tested apart."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, RequestInput
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool
from google.adk.workflow import START, Edge, FunctionNode, JoinNode, Node, RetryConfig, Workflow, node
from google.adk.workflow._errors import DynamicNodeFailError
from google.adk.workflow._graph import Graph
from google.genai import types
from pydantic import BaseModel

from actors import Paused
from actors.errors import AgentFailedError, DefinitionError, NotCarriedOverError, SeveralOutputsError
from runtime.adk import from_adk
from tests.adk import programs
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


def outputs(events: list[Any]) -> dict[str, Any]:
    """The outputs of nodes, by their paths."""
    return {event.node_info.path: event.output for event in events if event.node_info and event.output is not None}


class Order(BaseModel):
    """What is bought."""

    item: str
    count: int = 1


def read(node_input: str) -> Order:
    return Order(item=node_input, count=2)


def price(node_input: Order, ctx: Any) -> dict[str, Any]:
    ctx.state["item"] = node_input.item
    return {"price": 3 * node_input.count, "path": ctx.node_path, "run": ctx.run_id}


def sure(node_input: dict[str, Any]) -> Event:
    return Event(output=node_input["price"], route="dear" if node_input["price"] > 5 else "cheap")


def cheap(node_input: int, item: str) -> str:
    return f"{item} costs little"


def dear(node_input: int, item: str) -> str:
    return f"{item} costs {node_input}"


shop = Workflow(name="shop", edges=[(START, read, price, sure, {"cheap": cheap, "dear": dear})])


def test_functions_have_their_arguments_contexts_and_routes_as_in_adk(deploy: Deploy) -> None:
    adapted = from_adk(shop)
    assert (adapted.root_agent.kind, adapted.notes) == ("graph", ())
    with deploy(shop) as rt:
        events = run_turn(rt, "tea")
        assert outputs(events) == {
            "shop@1/read@1": {"item": "tea", "count": 2},
            "shop@1/price@1": {"price": 6, "path": "shop@1/price@1", "run": "1"},
            "shop@1/sure@1": 6,
            "shop@1/dear@1": "tea costs 6",
        }
        assert stored_state(rt) == {"item": "tea"}
        # One commit for each node: its end is its last event.
        assert len(stored(rt)) == 5


class Twice(Node):  # type: ignore[misc]
    """A node of a class of its own."""

    async def run_node_impl(self, *, ctx: Any, node_input: Any) -> AsyncIterator[Any]:
        yield Event(message=f"{node_input}?")
        ctx.route = "on"
        yield f"{node_input} {node_input}"


def end(node_input: str) -> str:
    return f"end of {node_input}"


def first(node_input: str) -> str:
    return node_input


def test_nodes_of_classes_of_ones_own(deploy: Deploy) -> None:
    twice = Twice(name="twice")
    with deploy(Workflow(name="wf", edges=[(START, first, twice, {"on": end})])) as rt:
        assert outputs(run_turn(rt, "hm")) == {
            "wf@1/first@1": "hm",
            "wf@1/twice@1": "hm hm",
            "wf@1/end@1": "end of hm hm",
        }


def several(node_input: str) -> list[str]:
    return node_input.split()


def shout(node_input: str) -> str:
    return node_input.upper()


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def two() -> dict[str, int]:
    return {"a": 1, "b": 2}


def test_parallel_workers_joins_tools_and_nested_workflows(deploy: Deploy) -> None:
    inner = Workflow(name="inner", edges=[(START, two, FunctionTool(add))])
    worker = node(shout, parallel_worker=True)
    edges = [(START, several, worker), (START, inner), ((worker, inner), JoinNode(name="both"))]
    root = Workflow(name="wf", edges=edges)
    with deploy(root) as rt:
        found = outputs(run_turn(rt, "a b"))
        assert found["wf@1/both@1"] == {"shout": ["A", "B"], "inner": 3}
        assert found["wf@1/inner@1/add@1"] == 3


helper = programs.agent("helper", "I help")


@node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
async def boss(ctx: Any, node_input: str) -> list[Any]:
    helped = await ctx.run_node(helper, node_input)
    return [helped, await ctx.run_node(shout, "done")]


def test_agents_that_a_function_names_are_actors_which_it_may_run(deploy: Deploy) -> None:
    with deploy(Workflow(name="wf", edges=[(START, boss)])) as rt:
        events = run_turn(rt, "please")
        assert outputs(events)["wf@1/boss@1"] == ["I help", "DONE"]
        assert [event.text for event in events if event.author == "helper"] == ["I help"]


helpers = node(programs.agent("each_helper", "I help"), parallel_worker=True)


@node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
async def foreman(ctx: Any, node_input: str) -> Any:
    return await ctx.run_node(helpers, node_input.split())


def test_a_function_has_an_agent_work_on_each_item(deploy: Deploy) -> None:
    with deploy(Workflow(name="wf", edges=[(START, foreman)])) as rt:
        assert outputs(run_turn(rt, "this that"))["wf@1/foreman@1"] == ["I help", "I help"]


def test_an_agent_that_the_code_does_not_show_is_refused_by_name(local: Deploy) -> None:
    @node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
    async def hidden(ctx: Any) -> Any:
        return await ctx.run_node(programs.agent("made_up", "never"), "x")

    with local(Workflow(name="wf", edges=[(START, hidden)])) as rt, pytest.raises(NotCarriedOverError, match="made_up"):
        run_turn(rt, "go")


@node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
def consent(ctx: Any, node_input: str) -> Any:
    given = ctx.resume_inputs.get("ok")
    if given is None:
        yield RequestInput(interrupt_id="ok", message=f"{node_input}?", response_schema={"type": "boolean"})
        return
    yield f"{node_input}: {given}"


def guess() -> RequestInput:
    return RequestInput(interrupt_id="guess", message="How many?")


def test_questions_pause_the_turn_and_answers_reach_the_code(deploy: Deploy) -> None:
    with deploy(Workflow(name="wf", edges=[(START, first, consent, guess, end)])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="send")
        assert isinstance(turn.result().outcome, Paused)
        assert [(call.call_id, call.args["message"]) for call in turn.pending] == [("ok", "send?")]
        turn = turn.answer("ok", True)
        assert outputs(list(turn)) == {"wf@1/consent@1": "send: True"}
        assert outputs(list(turn.answer("guess", "many"))) == {"wf@1/end@1": "end of many"}


def test_a_failure_below_a_caller_is_adks_own_error_there(local: Deploy) -> None:
    def kaput() -> None:
        raise ValueError("lost")

    @node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
    async def caller(ctx: Any) -> str:
        try:
            await ctx.run_node(kaput)
        except DynamicNodeFailError as error:
            return repr(error.error)
        return ""

    @node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
    async def careless(ctx: Any) -> None:
        await ctx.run_node(kaput)

    with local(Workflow(name="wf", edges=[(START, caller)])) as rt:
        assert outputs(run_turn(rt, "go"))["wf@1/caller@1"] == "ValueError('lost')"
    with local(Workflow(name="wf", edges=[(START, careless)])) as rt, pytest.raises(AgentFailedError, match="lost"):
        run_turn(rt, "go", session_id="s2")


def test_sync_functions_run_in_threads(local: Deploy) -> None:
    seen: list[str] = []

    def blocking(node_input: str) -> str:
        seen.append(threading.current_thread().name)
        return node_input

    async def own(node_input: str) -> str:
        seen.append(threading.current_thread().name)
        return node_input

    with local(Workflow(name="wf", edges=[(START, blocking, own)])) as rt:
        run_turn(rt, "go")
    assert seen[0] != seen[1]


def test_attempts_are_counted_as_in_adk(deploy: Deploy) -> None:
    def shaky(ctx: Any) -> int:
        if ctx.attempt_count < 3:
            raise ValueError("not yet")
        return int(ctx.attempt_count)

    with deploy(Workflow(name="wf", edges=[(START, node(shaky, retry_config=RetryConfig(initial_delay=0.01)))])) as rt:
        assert outputs(run_turn(rt, "go")) == {"wf@1/shaky@1": 3}


class State(BaseModel):
    """All keys."""

    known: int = 0


@pytest.mark.parametrize("is_yielded", [False, True])
def test_a_state_schema_is_checked_where_the_code_writes(is_yielded: bool, local: Deploy) -> None:
    def write(ctx: Any) -> Event | None:
        if is_yielded:
            return Event(state={"unknown": 1})
        ctx.state["unknown"] = 1
        return None

    with local(Workflow(name="wf", state_schema=State, edges=[(START, write)])) as rt:
        with pytest.raises(AgentFailedError, match="StateSchemaError"):
            run_turn(rt, "go")
        assert all(not event.actions.state_delta for event in stored(rt))


def test_a_node_as_the_root_has_the_path_of_its_own_name(local: Deploy) -> None:
    with local(node(first, name="alone")) as rt:
        assert outputs(run_turn(rt, "go")) == {"alone@1": "go"}


def test_a_node_may_take_the_users_content(local: Deploy) -> None:
    def words(node_input: types.Content) -> str:
        return "".join(part.text or "" for part in node_input.parts or ())

    with local(Workflow(name="wf", edges=[(START, Workflow(name="inner", edges=[(START, words)]))])) as rt:
        assert outputs(run_turn(rt, "no JSON")) == {"wf@1/inner@1/words@1": "no JSON"}


def test_a_tool_that_is_a_node_takes_its_arguments_from_the_text_of_a_content(local: Deploy) -> None:
    def say() -> Event:
        return Event(output=types.Content(role="user", parts=[types.Part(text='{"a": 2, "b": 3}')]))

    def multiply(a: int, b: int) -> int:
        return a * b

    with local(Workflow(name="wf", edges=[(START, say, FunctionTool(multiply))])) as rt:
        assert outputs(run_turn(rt, "go"))["wf@1/multiply@1"] == 6


class Clerk(BaseLlm):  # type: ignore[misc]
    """Asks until it has heard a colour."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        said = llm_request.contents[-1].parts[0].text
        part = types.Part(text="Which one?")
        if said == "blue":
            part = types.Part(function_call=types.FunctionCall(name="finish_task", args={"result": "the blue one"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def test_task_agents_talk_with_the_user(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", model=Clerk(model="clerk"), mode="task")
    with deploy(Workflow(name="wf", edges=[(START, first, clerk, end_of_task)])) as rt:
        assert [event.text for event in run_turn(rt, "choose") if event.author == "clerk"] == ["Which one?"]
        events = run_turn(rt, "blue")
        assert outputs(events)["wf@1/end_of_task@1"] == "took the blue one"


def end_of_task(node_input: dict[str, str]) -> str:
    return f"took {node_input['result']}"


def test_what_a_graph_cannot_carry_over_is_refused_or_an_island() -> None:
    root = Workflow(name="root", edges=[(START, first)], wait_for_output=True)
    with pytest.raises(DefinitionError, match=r"wait_for_output of a Workflow .*is not carried over"):
        from_adk(root)
    [note] = from_adk(root, islands=True).notes
    assert "so ADK's own Runner runs it" in note


def test_the_events_are_adks_again_for_who_reads_them(local: Deploy) -> None:
    from runtime.integrations.adk.contents import adk_event

    with local(shop) as rt:
        theirs = [adk_event(event) for event in run_turn(rt, "tea")]
    assert [(event.node_info.path, event.output) for event in theirs][-1] == ("shop@1/dear@1", "tea costs 6")
    assert theirs[-1].node_info.output_for == ["shop@1"]
    assert [event.actions.route for event in theirs if event.actions.route] == ["dear"]


class Reviewer(BaseAgent):  # type: ignore[misc]
    """Says what it was asked, and has its child work."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        text = ctx.user_content.parts[0].text
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=f"asked {text}")]))
        for child in self.sub_agents:
            async for event in child.run_async(ctx):
                yield event


def test_workflow_agents_and_other_agents_with_children_are_nodes(deploy: Deploy) -> None:
    def talker(name: str) -> LlmAgent:
        return LlmAgent(name=name, model=programs.Scripted(steps=[f"{name} has spoken"]))

    def first(node_input: str) -> str:
        return f"first {node_input}"

    def last(node_input: Any) -> str:
        return f"last {node_input}"

    steps = SequentialAgent(
        name="steps", sub_agents=[talker("a"), ParallelAgent(name="both", sub_agents=[talker("b"), talker("c")])]
    )
    reviewer = Reviewer(name="reviewer", sub_agents=[talker("d")])
    loop = LoopAgent(name="loop", sub_agents=[talker("e")], max_iterations=1)
    with deploy(Workflow(name="wf", edges=[(START, first, steps, reviewer, loop, last)])) as rt:
        events = run_turn(rt, "go")
        assert outputs(events) == {"wf@1/first@1": "first go", "wf@1/last@1": "last e has spoken"}
        paths = [(event.author, event.node_info.path) for event in events if event.node_info and event.text]
        assert sorted(paths) == [
            ("a", "wf@1/steps@1"),
            ("b", "wf@1/steps@1"),
            ("c", "wf@1/steps@1"),
            ("d", "wf@1/reviewer@1"),
            ("e", "wf@1/loop@1"),
            ("reviewer", "wf@1/reviewer@1"),
        ]
        asked = next(event.text for event in events if event.author == "reviewer" and event.text)
        assert asked == 'asked {"b": "b has spoken", "c": "c has spoken"}'


def one() -> int:
    return 1


@pytest.mark.parametrize("is_whole", [False, True], ids=["edges", "graph"])
def test_two_outputs_fail_a_workflow_whose_edges_adk_has_read(is_whole: bool, local: Deploy) -> None:
    edges = [Edge(from_node=START, to_node=FunctionNode(func=one)), Edge(from_node=START, to_node=FunctionNode(func=two))]
    given = {"graph": Graph(edges=edges)} if is_whole else {"edges": edges}
    with local(Workflow(name="wf", **given)) as rt:
        if is_whole:
            assert [event.output for event in run_turn(rt, "go") if event.output is not None] == [1, {"a": 1, "b": 2}]
        else:
            with pytest.raises(SeveralOutputsError, match=r"'one', 'two'"):
                run_turn(rt, "go")


def test_a_root_is_tried_again_and_bounded(deploy: Deploy) -> None:
    tried = RetryConfig(max_attempts=3, initial_delay=0.01)
    with deploy(Workflow(name="wf", edges=[(START, shaky_twice)], retry_config=tried, timeout=20)) as rt:
        events = run_turn(rt, "go")
        assert outputs(events) == {"wf@1/shaky_twice@1": "went"}
        assert [event.error_code for event in events if event.error_code] == ["ValueError"] * 2


def shaky_twice(ctx: Any) -> str:
    ctx.state["tried"] = ctx.state.get("tried", 0) + 1
    if ctx.state["tried"] < 3:
        raise ValueError("not yet")
    return "went"


def test_a_task_agent_as_the_root_talks_with_the_user(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="clerk", model=Clerk(model="clerk"), mode="task")) as rt:
        assert [event.text for event in run_turn(rt, "choose")] == ["Which one?"]
        assert outputs(run_turn(rt, "blue")) == {"clerk@1": {"result": "the blue one"}}


def test_an_agent_that_is_a_node_delegates_to_its_children(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", model=Clerk(model="clerk"), mode="task", description="Chooses.")
    desk = programs.agent("desk", ("clerk", {"request": "choose"}), "show:last", sub_agents=[clerk])
    with deploy(Workflow(name="wf", edges=[(START, desk)])) as rt:
        assert [event.text for event in run_turn(rt, "go") if event.text] == ["Which one?"]
        assert any("the blue one" in event.text for event in run_turn(rt, "blue") if event.author == "desk")


def test_a_tool_runs_nodes(deploy: Deploy) -> None:
    with deploy(till) as rt:
        events = run_turn(rt, "go")
        [path] = [event.node_info.path for event in events if event.output == "6 for tea" and event.node_info]
        assert path.startswith("till@1/use@call:")
        assert path.endswith("/costs@1")
        assert "6 for tea, well" in (events[-1].text or "")


helped = programs.agent("helped", "well")


def costs(node_input: str) -> str:
    return f"6 for {node_input}"


async def use(what: str, tool_context: Any) -> str:
    """Use a node and an agent."""
    return f"{await tool_context.run_node(costs, what)}, {await tool_context.run_node(helped, what)}"


till = programs.agent("till", ("use", {"what": "tea"}), "show:last", tools=[use], sub_agents=[helped])
