"""Tools of LLM agents that run nodes themselves (semantics.md section 8)."""

from __future__ import annotations

from typing import Any

from actors import START, Content, FunctionNode, Graph, LlmAgent, NodeContext, RequestInput, RetryConfig, ToolContext
from actors.errors import DynamicNodeFailError
from actors.testing import PatternModel, ScriptedModel
from tests.support.graphs import double, ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


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
