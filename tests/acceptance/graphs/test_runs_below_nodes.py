"""Nodes that run other ones: for each item of a list, or as their code says (semantics.md section 8).

Tools of LLM agents that run nodes themselves (semantics.md section 8).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import (
    START,
    Content,
    Event,
    FunctionNode,
    FunctionTool,
    Graph,
    LlmAgent,
    NodeContext,
    PartialResults,
    RequestInput,
    RetryConfig,
    ToolContext,
    node,
)
from actors.errors import AgentFailedError, DefinitionError, DynamicNodeFailError, RaygroveError, WorkflowConfigurationError
from actors.testing import PatternModel, ScriptedModel
from tests.acceptance.graphs.test_pauses_and_attempts import answers, asked
from tests.support.graphs import double, ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


def three() -> list[int]:
    return [1, 2, 3]


def test_a_node_runs_for_each_item_on_a_branch_of_its_own(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, three, node(double, parallel_worker=True), named_node("last"))])) as rt:
        events = run_turn(rt, "go")
    assert ends(events)["wf@1/double@1"] == [2, 4, 6]
    assert {event.branch for event in events if event.node_info and event.node_info.path.startswith("wf@1/double@1/")} == {
        "double@1",
        "double@2",
        "double@3",
    }
    assert ends(events)["wf@1/last@1"] == "last([2, 4, 6])"


def test_one_agent_works_on_all_items_side_by_side(deploy: Deploy) -> None:
    model = PatternModel([("1", "one"), ("2", "two"), ("3", "three")])
    worker = node(LlmAgent(name="m", model=model), parallel_worker=True, max_parallel_workers=2)
    with deploy(Graph(name="wf", edges=[(START, three, worker)])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/m@1"] == ["one", "two", "three"]


def test_a_graph_works_on_all_items(deploy: Deploy) -> None:
    below = Graph(name="below", edges=[(START, double, FunctionNode(double, name="again"))])
    with deploy(Graph(name="wf", edges=[(START, three, node(below, parallel_worker=True))])) as rt:
        found = ends(run_turn(rt, "go"))
    assert found["wf@1/below@1"] == [4, 8, 12]
    assert found["wf@1/below@1/below@2/again@1"] == 8


def test_a_tool_works_on_all_items(deploy: Deploy) -> None:
    def next_one(x: int) -> int:
        """The next number."""
        return x + 1

    worker = node(FunctionTool(next_one), parallel_worker=True, max_parallel_workers=2)
    with deploy(Graph(name="wf", edges=[(START, three, worker), (worker, named_node("last"))])) as rt:
        found = ends(run_turn(rt, "go"))
    assert (found["wf@1/next_one@1/next_one@3"], found["wf@1/last@1"]) == (4, "last([2, 3, 4])")
    with pytest.raises(DefinitionError, match="has its own name and options"):
        node(FunctionTool(next_one), parallel_worker=True, timeout=1)


def test_a_function_has_items_worked_on_by_agents_and_functions(deploy: Deploy) -> None:
    asked = LlmAgent(name="m", model=PatternModel([("1", "one"), ("2", "two")]))
    agents, functions = node(asked, parallel_worker=True), node(double, parallel_worker=True)

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> list[Any]:
        return [await ctx.run_node(agents, [1, 2]), await ctx.run_node(functions, [1, 2])]

    with deploy(Graph(name="wf", edges=[(START, chief)], sub_agents=[asked])) as rt:
        found = ends(run_turn(rt, "go"))
    assert found["wf@1/chief@1"] == [["one", "two"], [2, 4]]
    assert found["wf@1/chief@1/double@1/double@2"] == 4


@pytest.mark.parametrize(("said", "items"), [("[1, 2]", [2, 4]), ("5", [10])])
def test_what_the_user_says_is_a_list_or_one_item(deploy: Deploy, said: str, items: list[int]) -> None:
    with deploy(Graph(name="wf", edges=[(START, node(double, parallel_worker=True))])) as rt:
        assert ends(run_turn(rt, said))["wf@1/double@1"] == items


def test_so_many_items_run_at_a_time_and_one_that_fails_stops_the_others(deploy: Deploy) -> None:
    begun: list[int] = []

    async def work(node_input: int) -> int:
        begun.append(node_input)
        if node_input == 2:
            raise ValueError("no luck with 2")
        await asyncio.sleep(0.01 if node_input == 1 else 30)
        return node_input

    def many() -> list[int]:
        return list(range(1, 9))

    worker = node(work, parallel_worker=True, max_parallel_workers=2)
    with deploy(Graph(name="wf", edges=[(START, many, worker)])) as rt:
        with pytest.raises(AgentFailedError, match="no luck with 2"):
            run_turn(rt, "go")
        failed = [event for event in stored(rt) if event.error_code]
    assert [event.node_info.path for event in failed if event.node_info] == ["wf@1/work@1/work@2"]
    # On Ray the list is another process's.
    assert len(begun) <= 3


def test_items_ask_the_user_and_those_that_have_ended_do_not_run_again(deploy: Deploy) -> None:
    @node(rerun_on_resume=True, parallel_worker=True)
    def work(ctx: NodeContext, node_input: int) -> Any:
        ctx.state[f"runs{node_input}"] = ctx.state.get(f"runs{node_input}", 0) + 1
        if node_input != 2 or "q" in ctx.resume_inputs:
            return [node_input, dict(ctx.resume_inputs)]
        return RequestInput(interrupt_id="q")

    with deploy(Graph(name="wf", edges=[(START, three, work)])) as rt:
        assert asked(run_turn(rt, "go")) == [("q", {})]
        assert ends(run_turn(rt, answers(q="yes")))["wf@1/work@1"] == [[1, {}], [2, {"q": "yes"}], [3, {}]]
        assert stored_state(rt) == {"runs1": 1, "runs2": 2, "runs3": 1}


def test_a_function_runs_nodes_as_its_code_says(deploy: Deploy) -> None:
    writer = LlmAgent(name="writer", model=ScriptedModel(["a poem"]))

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext, node_input: str) -> list[Any]:
        poem = await ctx.run_node(writer, node_input)
        both = await asyncio.gather(ctx.run_node(double, 1), ctx.run_node(double, 2, use_sub_branch=True))
        return [poem, *both, await ctx.run_node("writer_two", poem)]

    second = ScriptedModel(["better"])
    graph = Graph(name="wf", edges=[(START, chief)], sub_agents=[writer, LlmAgent(name="writer_two", model=second)])
    with deploy(graph) as rt:
        events = run_turn(rt, "Write!")
    assert ends(events) == {
        "wf@1/chief@1/double@1": 2,
        "wf@1/chief@1/double@2": 4,
        "wf@1/chief@1": ["a poem", 2, 4, "better"],
    }
    assert {event.branch for event in events if event.node_info} == {None, "double@2"}
    assert [content.text for content in second.requests[0].contents] == ["a poem"]


def test_a_function_is_interrupted_by_a_question_below_it_and_called_again_with_the_answer(deploy: Deploy) -> None:
    def ask() -> RequestInput:
        return RequestInput(interrupt_id="q")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> list[Any]:
        first = await ctx.run_node(double, 1)
        return [first, await ctx.run_node(ask), await ctx.run_node(double, 5)]

    with deploy(Graph(name="wf", edges=[(START, chief, named_node("last"))])) as rt:
        assert asked(run_turn(rt, "go")) == [("q", {})]
        events = run_turn(rt, answers(q="so"))
        # What had ended gave what it gave, and was not run again.
        assert ends(events) == {
            "wf@1/chief@1/double@2": 10,
            "wf@1/chief@1": [2, "so", 10],
            "wf@1/last@1": "last([2, 'so', 10])",
        }


@pytest.mark.parametrize("said", [[("own", "below")], [("own",), ("below",)], [("below",), ("own",)]], ids=repr)
def test_a_function_that_has_asked_itself_is_interrupted_by_a_question_below_it(
    local: Deploy, said: list[tuple[str, ...]]
) -> None:
    def ask() -> RequestInput:
        return RequestInput(interrupt_id="below")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> AsyncIterator[object]:
        if "own" not in ctx.resume_inputs:
            yield RequestInput(interrupt_id="own")
        below = await ctx.run_node(ask)
        if "own" in ctx.resume_inputs:
            yield Event(output=[ctx.resume_inputs["own"], below])

    with local(Graph(name="wf", edges=[(START, chief, named_node("last"))])) as rt:
        assert sorted(asked(run_turn(rt, "go"))) == [("below", {}), ("own", {})]
        assert {call.call_id for call in rt.turns.pending("ada")} == {"below", "own"}
        for each in said:
            events = run_turn(rt, answers(**{name: f"to {name}" for name in each}))
        assert ends(events)["wf@1/last@1"] == "last(['to own', 'to below'])"


def test_a_run_that_waits_for_its_output_runs_again_when_the_function_is_called_again(deploy: Deploy) -> None:
    def collect(ctx: NodeContext) -> str | None:
        ctx.state["runs"] = ctx.state.get("runs", 0) + 1
        return "enough" if ctx.state["runs"] == 2 else None

    collecting = FunctionNode(collect, wait_for_output=True)

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        found = [await ctx.run_node(collecting), await ctx.run_node(double, 1)]
        return found if "q" in ctx.resume_inputs else RequestInput(interrupt_id="q")

    with deploy(Graph(name="wf", edges=[(START, chief)])) as rt:
        assert asked(run_turn(rt, "go")) == [("q", {})]
        events = run_turn(rt, answers(q="so"))
        # The other run had an output, and was not run again.
        assert ends(events) == {"wf@1/chief@1/collect@1": "enough", "wf@1/chief@1": ["enough", 2]}


def test_a_run_that_fails_may_be_excused(deploy: Deploy) -> None:
    def fail() -> None:
        raise ValueError("no luck")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> str:
        try:
            await ctx.run_node(fail)
        except DynamicNodeFailError as error:
            return str(error)
        return "never"

    @node(rerun_on_resume=True)
    async def careless(ctx: NodeContext) -> None:
        await ctx.run_node(fail)

    with deploy(Graph(name="wf", edges=[(START, chief, careless)])) as rt:
        with pytest.raises(AgentFailedError, match="no luck"):
            run_turn(rt, "go")
        log = stored(rt)
    assert ends(log) == {"wf@1/chief@1": "node wf@1/chief@1/fail@1 has failed: no luck"}
    paths = [event.node_info.path for event in log if event.error_code and event.node_info]
    assert paths == ["wf@1/chief@1/fail@1", "wf@1/careless@1/fail@1"]


def test_what_has_ended_below_is_not_run_again_by_another_attempt(deploy: Deploy) -> None:
    def count(ctx: NodeContext) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        number: int = ctx.state["n"]
        return number

    @node(rerun_on_resume=True, retry_config=RetryConfig(max_attempts=3, initial_delay=0.01))
    async def chief(ctx: NodeContext) -> int:
        counted = await ctx.run_node(count)
        if ctx.attempt_count < 3:
            raise ValueError("again")
        number: int = counted
        return number

    with deploy(Graph(name="wf", edges=[(START, chief)])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/chief@1"] == 1


def test_the_output_of_a_run_is_that_of_the_function_if_it_says_so(deploy: Deploy) -> None:
    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> None:
        await ctx.run_node(double, 4, use_as_output=True)

    with deploy(Graph(name="wf", edges=[(START, chief, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
    assert ends(events) == {"wf@1/chief@1/double@1": 8, "wf@1/last@1": "last(8)"}
    assert [list(event.node_info.output_for) for event in events if event.output == 8 and event.node_info] == [["wf@1/chief@1"]]


@pytest.mark.parametrize(
    ("rerun", "asks", "message"),
    [
        (False, {}, "it has to be a node with rerun_on_resume=True"),
        (True, {"run_id": "7"}, "run_id '7' has digits only"),
        (True, {"node": "nobody"}, "can run the agents of its graph: give it in sub_agents"),
    ],
)
def test_a_run_that_cannot_be_is_refused(deploy: Deploy, rerun: bool, asks: dict[str, Any], message: str) -> None:
    async def chief(ctx: NodeContext) -> None:
        await ctx.run_node(asks.get("node", double), 1, run_id=asks.get("run_id"))

    with deploy(Graph(name="wf", edges=[(START, node(chief, rerun_on_resume=rerun))])) as rt:
        with pytest.raises(RaygroveError, match=message):
            run_turn(rt, "go")
        assert [isinstance(event, Event) and event.error_code is not None for event in stored(rt)][-1]


def test_items_that_fail_cost_the_others_nothing(deploy: Deploy) -> None:
    def work(ctx: NodeContext, node_input: int) -> int:
        if node_input == 3 or (node_input == 2 and ctx.attempt_count < 3):
            raise ValueError(f"no {node_input}")
        return 2 * node_input

    def look(node_input: PartialResults) -> str:
        [error] = node_input.errors
        return f"{node_input.results}, not {error.index}: {error.error_code}: {error.error_message}"

    tried = FunctionNode(work, retry_config=RetryConfig(max_attempts=3, initial_delay=0.01))
    worker = node(tried, parallel_worker=True, max_parallel_workers=2, partial_results=True)
    with deploy(Graph(name="wf", edges=[(START, items, worker, look)])) as rt:
        events = run_turn(rt, "go")
        assert ends(events)["wf@1/look@1"] == "[2, 4, None, 8], not 2: ValueError: no 3"
        failed = [event.node_info.path for event in events if event.error_code and event.node_info]
        assert Counter(failed) == {"wf@1/work@1/work@2": 2, "wf@1/work@1/work@3": 3}


def items() -> list[int]:
    return [1, 2, 3, 4]


def test_agents_that_fail_cost_the_others_nothing(deploy: Deploy) -> None:
    model = PatternModel([("^b$", ValueError("no")), ("", "fine")])
    worker = node(LlmAgent(name="m", model=model), parallel_worker=True, partial_results=True)
    with deploy(Graph(name="wf", edges=[(START, worker)])) as rt:
        output = ends(run_turn(rt, '["a", "b", "c"]'))["wf@1/m@1"]
        error = {"index": 1, "error_code": "ValueError", "error_message": "no"}
        assert output == {"results": ["fine", None, "fine"], "errors": [error]}


def test_partial_results_are_for_lists() -> None:
    with pytest.raises(WorkflowConfigurationError, match="partial_results is for"):
        node(double, partial_results=True)


def test_of_two_runs_that_fail_side_by_side_each_says_so_once(deploy: Deploy) -> None:
    @node
    def fails(node_input: str) -> None:
        raise ValueError(node_input)

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        return await asyncio.gather(ctx.run_node(fails, "one"), ctx.run_node(fails, "two"), return_exceptions=False)

    @node(rerun_on_resume=True)
    async def late(ctx: NodeContext) -> Any:
        found = await asyncio.gather(ctx.run_node(fails, "one"), ctx.run_node(fails, "two"), return_exceptions=True)
        raise found[0]

    for each in (chief, late):
        with deploy(Graph(name="wf", edges=[(START, each)])) as rt:
            with pytest.raises(AgentFailedError, match="ValueError: one"):
                run_turn(rt, "go", session_id=each.name)
            paths = [event.node_info.path for event in stored(rt, each.name) if event.error_code and event.node_info]
            assert set(paths) <= {f"wf@1/{each.name}@1/fails@{number}" for number in (1, 2)}


async def twice(x: int, tool_context: ToolContext) -> int:
    """Double twice."""
    doubled: int = await tool_context.run_node(double, x)
    again: int = await tool_context.run_node(double, doubled)
    return again


def boss(tool: Any, *replies: Any, **fields: Any) -> tuple[LlmAgent, ScriptedModel]:
    model = ScriptedModel([*replies, "done"])
    return LlmAgent(name="boss", model=model, tools=[tool], **fields), model


def results(model: ScriptedModel) -> list[Any]:
    """What the model was given as results of its calls."""
    parts = [part for content in model.requests[-1].contents for part in content.parts]
    return [part.function_response.response for part in parts if part.function_response is not None]


def test_a_tool_runs_functions_and_the_model_sees_its_result_only(deploy: Deploy) -> None:
    def say(ctx: NodeContext, node_input: str) -> Content:
        ctx.state["said"] = node_input
        return Content.of_text(f"saying {node_input}", role="model")

    async def talk(x: str, tool_context: ToolContext) -> str:
        """Say something."""
        await tool_context.run_node(say, x)
        return str(await tool_context.run_node(named_node("heard"), x))

    agent, model = boss(talk, {"call": "talk", "args": {"x": "a"}, "id": "c1"})
    with deploy(agent) as rt:
        events = run_turn(rt, "go")
        assert texts(events) == ["saying a", "done"]
        assert ends(events) == {"boss@1/talk@call:c1/heard@1": "heard(a)"}
        assert results(model) == [{"result": "heard(a)"}]
        assert [len(request.contents) for request in model.requests] == [1, 3]
        assert stored_state(rt)["said"] == "a"


def test_calls_side_by_side_have_runs_of_their_own(deploy: Deploy) -> None:
    calls = {"parts": [{"call": "twice", "args": {"x": x}, "id": f"c{x}"} for x in (1, 5)]}
    agent, model = boss(twice, calls)
    with deploy(agent) as rt:
        assert set(ends(run_turn(rt, "go"))) == {f"boss@1/twice@call:c{x}/double@{number}" for x in (1, 5) for number in (1, 2)}
        assert results(model) == [{"result": 4}, {"result": 20}]


def test_in_a_graph_its_runs_are_below_the_node(deploy: Deploy) -> None:
    agent, _ = boss(twice, {"call": "twice", "args": {"x": 1}, "id": "c1"})
    with deploy(Graph(name="wf", edges=[(START, agent, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        [call] = [call for event in events for call in event.function_calls()]
        found = ends(events)
        assert found[f"wf@1/boss@1/twice@call:{call.id}/double@2"] == 4
        assert found["wf@1/last@1"] == "last(done)"


def test_a_tool_runs_the_children_of_its_agent_and_no_others(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", model=PatternModel([("", "looked up")]))

    async def ask(name: str, tool_context: ToolContext) -> str:
        """Ask an agent."""
        return f"the clerk has {await tool_context.run_node(name, 'look')}"

    calls = [{"call": "ask", "args": {"name": name}, "id": name} for name in ("clerk", "nobody")]
    agent, model = boss(ask, {"parts": calls}, sub_agents=[clerk])
    with deploy(agent) as rt:
        events = run_turn(rt, "go")
        assert [event.node_info.path for event in events if event.text == "looked up" and event.node_info] == [
            "boss@1/ask@call:clerk/clerk@1"
        ]
        right, wrong = results(model)
        assert right == {"result": "the clerk has looked up"}
        assert "nobody" in wrong["error"]


def test_a_run_is_tried_again_and_its_failure_is_the_tools_to_excuse(deploy: Deploy) -> None:
    def shaky(ctx: NodeContext, node_input: int) -> int:
        if ctx.attempt_count <= node_input:
            raise ValueError("no luck")
        return ctx.attempt_count

    node = FunctionNode(shaky, retry_config=RetryConfig(max_attempts=2, initial_delay=0.01))

    async def work(x: int, tool_context: ToolContext) -> str:
        """Work."""
        try:
            return f"after {await tool_context.run_node(node, x)}"
        except DynamicNodeFailError as error:
            return f"excused: {error.__cause__}"

    calls = {"parts": [{"call": "work", "args": {"x": x}, "id": f"c{x}"} for x in (1, 5)]}
    agent, model = boss(work, calls)
    with deploy(agent) as rt:
        run_turn(rt, "go")
        right, wrong = results(model)
        assert right == {"result": "after 2"}
        assert "no luck" in wrong["result"]
        failed = [event.node_info.path for event in stored(rt) if event.error_code and event.node_info]
        assert sorted(failed) == ["boss@1/work@call:c1/shaky@1", *["boss@1/work@call:c5/shaky@1"] * 2]


def test_a_run_cannot_ask_the_user(deploy: Deploy) -> None:
    def ask() -> RequestInput:
        return RequestInput(interrupt_id="name")

    async def greet(tool_context: ToolContext) -> str:
        """Greet the user."""
        return f"Hello {await tool_context.run_node(ask)}"

    agent, model = boss(greet, {"call": "greet", "id": "c1"})
    with deploy(agent) as rt:
        assert texts(run_turn(rt, "go")) == ["done"]
        [result] = results(model)
        assert "waits for the user" in result["error"]
        assert not any(event.long_running_tool_ids for event in stored(rt))
