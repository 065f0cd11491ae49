"""Agents and graphs that work for the calls of an LLM agent (semantics.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from actors import (
    START,
    Content,
    Event,
    Graph,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    NodeContext,
    RequestInput,
    SequentialAgent,
    node,
    tool,
)
from actors.errors import AgentTreeError, DefinitionError, WorkflowDataError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.support.agents.workflow_agents import answer
from tests.support.graphs import named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored


def ask() -> None:
    """Ask a human."""


def contents(model: ScriptedModel, index: int = -1) -> list[tuple[str | None, list[Any]]]:
    """What a model was shown in one of its calls: texts, and the names of calls and responses with what these say."""
    shown = []
    for content in model.requests[index].contents:
        parts: list[Any] = []
        for part in content.parts:
            if part.function_call is not None:
                parts.append((part.function_call.name, part.function_call.args))
            elif part.function_response is not None:
                parts.append((part.function_response.name, part.function_response.response))
            else:
                parts.append(part.text)
        shown.append((content.role, parts))
    return shown


def paths(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Author and path of each event that says something, with the ids of calls as `call`."""
    said = [event for event in events if event.content is not None and event.node_info is not None]
    calls = {call.id: "call" for event in said for call in event.function_calls() if call.id}
    found = []
    for event in said:
        assert event.node_info is not None
        path = event.node_info.path
        for call_id, word in calls.items():
            path = path.replace(call_id, word)
        found.append((event.author, path))
    return found


def test_an_agent_below_answers_a_call(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", description="Knows prices.", model=ScriptedModel(["four", "five"]), mode="single_turn")
    script: list[Any] = [
        {"call": "clerk", "args": {"request": "of pears"}},
        {"call": "clerk", "args": {"request": "of plums"}},
        "four and five",
        "you are welcome",
    ]
    boss = LlmAgent(name="boss", model=ScriptedModel(script), sub_agents=[clerk])
    with deploy(boss) as rt:
        events = run_turn(rt, "What do they cost?")
        assert texts(events) == ["four", "five", "four and five"]
        said = [event.node_info.path for event in events if event.author == "clerk" and event.node_info is not None]
        assert said == ["boss@1/clerk@1", "boss@1/clerk@2"]
        # The conversation stays with the agent that has delegated.
        assert texts(run_turn(rt, "Thanks")) == ["you are welcome"]


def test_models_see_calls_and_results_only() -> None:
    inner, outer = ScriptedModel(["four"]), ScriptedModel([{"call": "clerk", "args": {"request": "of pears"}}, "it is four"])
    clerk = LlmAgent(name="clerk", model=inner, mode="single_turn")
    with Runtime(
        LlmAgent(name="boss", model=outer, sub_agents=[clerk]), app_name="shop", engine="local", session_store="sqlite://"
    ) as rt:
        run_turn(rt, "What do they cost?")
    assert contents(inner) == [("user", ["of pears"])]
    call, result = ("clerk", {"request": "of pears"}), ("clerk", {"result": "four"})
    assert contents(outer) == [("user", ["What do they cost?"]), ("model", [call]), ("user", [result])]


class Trip(BaseModel):
    city: str
    days: int


def trips(planner: Any, boss: Any) -> LlmAgent:
    below = LlmAgent(name="planner", model=planner, mode="task", output_schema=Trip)
    return LlmAgent(name="boss", model=boss, sub_agents=[below])


PLANS: list[Any] = ["Where to?", "For how long?", {"call": "finish_task", "args": {"city": "Rome", "days": 3}}]
DELEGATES: list[Any] = [{"call": "planner", "args": {"request": "plan"}}, "Three days in Rome it is"]


def test_an_agent_with_a_task_talks_with_the_user_before_the_call_has_its_result(deploy: Deploy) -> None:
    with deploy(trips(ScriptedModel(PLANS), ScriptedModel([*DELEGATES, "Bye"]))) as rt:
        assert texts(run_turn(rt, "I want to travel")) == ["Where to?"]
        assert texts(run_turn(rt, "Rome")) == ["For how long?"]
        events = run_turn(rt, "Three days")
        assert texts(events) == ["Three days in Rome it is"]
        results = [response.response for event in events for response in event.function_responses() if response.name == "planner"]
        assert results == [{"city": "Rome", "days": 3}]
        assert len({event.invocation_id for event in stored(rt)}) == 1
        assert texts(run_turn(rt, "Bye")) == ["Bye"]


def test_the_output_of_a_task_that_is_no_dictionary_stands_under_its_name(local: Deploy) -> None:
    planner = ScriptedModel([{"call": "finish_task", "args": {"result": ["Rome", "Bari"]}}])
    below = LlmAgent(name="planner", model=planner, mode="task", output_schema=list[str])
    with local(LlmAgent(name="boss", model=ScriptedModel(DELEGATES), sub_agents=[below])) as rt:
        events = run_turn(rt, "I want to travel")
    results = [response.response for event in events for response in event.function_responses() if response.name == "planner"]
    assert results == [{"output": ["Rome", "Bari"]}]


def test_what_is_said_in_a_task_is_not_seen_by_the_agent_that_delegates() -> None:
    planner, boss = ScriptedModel(PLANS), ScriptedModel([*DELEGATES, "Bye"])
    with Runtime(trips(planner, boss), app_name="trips", engine="local", session_store="sqlite://") as rt:
        for message in ("I want to travel", "Rome", "Three days", "Bye"):
            run_turn(rt, message)
    words = ['{"request": "plan"}', "Where to?", "Rome", "For how long?", "Three days"]
    assert [part for _, parts in contents(planner) for part in parts] == words
    shown = [part for _, parts in contents(boss) for part in parts if isinstance(part, str)]
    assert shown == ["I want to travel", "Three days in Rome it is", "Bye"]


class Order(BaseModel):
    fruit: str


def fruit_shop(boss: Any) -> LlmAgent:
    def confirm(node_input: dict[str, str]) -> RequestInput:
        return RequestInput(interrupt_id="q", message=f"{node_input['fruit']}?")

    shop = Graph(name="shop", description="Sells fruit.", input_schema=Order, edges=[(START, confirm, named_node("sell"))])
    return LlmAgent(name="boss", model=boss, tools=[shop])


def test_a_graph_is_a_tool_that_may_ask_the_user(deploy: Deploy) -> None:
    script: list[Any] = [{"call": "shop", "args": {"fruit": "pears"}}, "sold", "bye"]
    with deploy(fruit_shop(ScriptedModel(script))) as rt:
        events = run_turn(rt, "Pears, please")
        assert paths(events) == [("boss", "boss@1"), ("shop", "boss@1/shop@call/confirm@1")]
        assert [call.call_id for call in rt.pending(user_id="ada", session_id="s1")] == ["q"]
        events = run_turn(rt, answers(q="yes"))
        results = [response.response for event in events for response in event.function_responses()]
        assert (results, texts(events)) == ([{"result": "sell(yes)"}], ["sold"])
        assert texts(run_turn(rt, "Thanks")) == ["bye"]


def fruit_buyer(boss: Any) -> LlmAgent:
    def price_of(node_input: str) -> int:
        return len(node_input)

    def confirm(node_input: int) -> RequestInput:
        return RequestInput(interrupt_id="q", message=f"For {node_input}?")

    @node(rerun_on_resume=True)
    async def buy(ctx: NodeContext, fruit: str, count: int = 1) -> str:
        """Buys fruit."""
        price = await ctx.run_node(price_of, fruit)
        return f"{count} {fruit} for {price * count}: {await ctx.run_node(confirm, price * count)}"

    return LlmAgent(name="boss", model=boss, tools=[buy])


def test_a_function_is_a_tool_that_may_run_others_and_ask_the_user(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "buy", "args": {"fruit": "pears", "count": 2}}, "bought", "bye"])
    with deploy(fruit_buyer(model)) as rt:
        events = run_turn(rt, "Two pears, please")
        [call] = [call for event in events for call in event.function_calls() if call.name == "buy"]
        said = [event for event in events if event.node_info and (event.content or event.output)]
        assert [(event.author, event.node_info and event.node_info.path.replace(call.id or "", "call")) for event in said] == [
            ("boss", "boss@1"),
            ("buy", "boss@1/buy@call/price_of@1"),
            ("buy", "boss@1/buy@call/confirm@1"),
        ]
        assert [event.output for event in events if event.output] == [5]
        events = run_turn(rt, answers(q="yes"))
        results = [response.response for event in events for response in event.function_responses()]
        assert (results, texts(events)) == ([{"result": "2 pears for 10: yes"}], ["bought"])
        outputs = {event.node_info.path.rpartition("/")[2]: event.author for event in events if event.output and event.node_info}
        assert outputs == {f"buy@{call.id}": "buy"}
        assert texts(run_turn(rt, "Thanks")) == ["bye"]


def test_the_model_sees_the_parameters_of_a_function_that_is_a_node() -> None:
    [tool] = fruit_buyer(PatternModel([])).tools
    declared = tool.declaration()
    assert (declared.name, declared.description) == ("buy", "Buys fruit.")
    assert declared.parameters == {
        "type": "object",
        "properties": {"fruit": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "required": ["fruit"],
    }


def test_a_function_takes_all_its_parameters_from_its_input_if_it_says_so(deploy: Deploy) -> None:
    def give() -> dict[str, Any]:
        return {"x": "3", "more": True}

    def take(x: int, y: int = 4) -> int:
        return x * y

    def need(z: int) -> int:
        return z

    taking = node(take, parameter_binding="node_input")
    with deploy(Graph(name="wf", edges=[(START, give, taking)])) as rt:
        assert [event.output for event in run_turn(rt, "go")][-1] == 12
    needing = node(need, parameter_binding="node_input")
    with (
        deploy(Graph(name="wf", edges=[(START, give, needing)])) as rt,
        pytest.raises(WorkflowDataError, match="the input has no 'z'"),
    ):
        run_turn(rt, "go", session_id="s2")
    with deploy(Graph(name="wf", edges=[(START, needing)])) as rt, pytest.raises(WorkflowDataError, match="no dictionary"):
        run_turn(rt, "go", session_id="s3")
    with pytest.raises(DefinitionError, match="parameter_binding is 'state' or 'node_input', not 'call'"):
        node(take, parameter_binding="call")  # type: ignore[call-overload]


def test_delegates_work_side_by_side_and_beside_a_call_that_waits(deploy: Deploy) -> None:
    human = {"function_call": {"name": "ask", "args": {}}}
    planner = {"function_call": {"name": "planner", "args": {"request": "plan"}}}
    clerk = {"function_call": {"name": "clerk", "args": {"request": "of pears"}}}
    boss = LlmAgent(
        name="boss",
        model=ScriptedModel([Content.from_dict({"role": "model", "parts": [human, planner, clerk]}), "all is done"]),
        tools=[LongRunningFunctionTool(ask)],
        sub_agents=[
            LlmAgent(
                name="planner", mode="task", model=ScriptedModel(["Where to?", {"call": "finish_task", "args": {"result": "ok"}}])
            ),
            LlmAgent(name="clerk", mode="single_turn", model=ScriptedModel(["four"])),
        ],
    )
    with deploy(boss) as rt:
        assert sorted(texts(run_turn(rt, "Go"))) == ["Where to?", "four"]
        assert texts(run_turn(rt, "Rome")) == []
        assert [call.name for call in rt.pending(user_id="ada", session_id="s1")] == ["ask"]
        assert texts(run_turn(rt, answer(rt, "boss"))) == ["all is done"]


def test_a_delegate_that_fails_is_an_error_for_the_model(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", mode="single_turn", model=ScriptedModel([]))
    boss = LlmAgent(
        name="boss", model=ScriptedModel([{"call": "clerk", "args": {"request": "x"}}, "no luck"]), sub_agents=[clerk]
    )
    with deploy(boss) as rt:
        events = run_turn(rt, "Go")
        [result] = [response.response for event in events for response in event.function_responses()]
        assert "ScriptExhaustedError" in str(result["error"])
        assert texts(events) == ["no luck"]


def test_wrong_arguments_are_told_to_the_model(deploy: Deploy) -> None:
    with deploy(fruit_shop(ScriptedModel([{"call": "shop", "args": {"fruits": 3}}, "sorry"]))) as rt:
        events = run_turn(rt, "Pears")
        [result] = [response.response for event in events for response in event.function_responses()]
        assert "wrong arguments for shop" in str(result["error"])


def test_a_delegate_in_a_workflow_pauses_it(deploy: Deploy) -> None:
    first = LlmAgent(name="first", model=PatternModel([("", "first")]))
    last = LlmAgent(name="last", model=PatternModel([("", "last")]))
    planner = ScriptedModel(PLANS * 2)
    boss = trips(planner, ScriptedModel(DELEGATES * 2))
    with deploy(
        LoopAgent(name="twice", max_iterations=2, sub_agents=[SequentialAgent(name="s", sub_agents=[first, boss, last])])
    ) as rt:
        assert texts(run_turn(rt, "I want to travel")) == ["first", "Where to?"]
        assert texts(run_turn(rt, "Rome")) == ["For how long?"]
        assert texts(run_turn(rt, "Three days")) == ["Three days in Rome it is", "last", "first", "Where to?"]
        assert texts(run_turn(rt, "Rome")) == ["For how long?"]
        assert texts(run_turn(rt, "Three days")) == ["Three days in Rome it is", "last"]


def test_nobody_hands_a_conversation_over_to_a_delegate(deploy: Deploy) -> None:
    clerk = LlmAgent(name="clerk", model=ScriptedModel([]), mode="single_turn")
    other = LlmAgent(name="other", model=ScriptedModel([{"transfer": "clerk"}, "well"]))
    boss = LlmAgent(name="boss", model=ScriptedModel([{"transfer": "other"}]), sub_agents=[clerk, other])
    with deploy(boss) as rt:
        events = run_turn(rt, "Go")
        [error] = [r.response["error"] for event in events for r in event.function_responses() if "error" in r.response]
        assert "clerk" in str(error)
        assert texts(events) == ["well"]


def test_what_cannot_delegate_is_refused() -> None:
    clerk = LlmAgent(name="clerk", model=ScriptedModel([]), mode="task")
    with pytest.raises(AgentTreeError, match="below an LlmAgent"):
        Runtime(SequentialAgent(name="s", sub_agents=[clerk]), app_name="x", engine="local", session_store="sqlite://").start()
    with pytest.raises(DefinitionError, match="two tools are called 'clerk'"):
        LlmAgent(name="boss", model=ScriptedModel([]), sub_agents=[clerk], tools=[named_tool("clerk")])


def test_a_graph_whose_input_is_no_model_takes_it_as_its_request(deploy: Deploy) -> None:
    async def double(node_input: int) -> int:
        return 2 * node_input

    graph = Graph(name="doubler", input_schema=int, edges=[(START, double)])
    script: list[Any] = [{"call": "doubler", "args": {"request": 21}}, {"call": "doubler", "args": {"request": "many"}}, "done"]
    boss = LlmAgent(name="boss", model=ScriptedModel(script), tools=[graph])
    with deploy(boss) as rt:
        events = run_turn(rt, "Go")
        right, wrong = (response.response for event in events for response in event.function_responses())
        assert right == {"result": 42}
        assert "wrong arguments for doubler: request" in str(wrong["error"])


def named_tool(name: str) -> Any:
    def call() -> str:
        """Say a word."""
        return "word"

    call.__name__ = name
    return tool(call)
