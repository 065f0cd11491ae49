"""Workflows and task agents of google-adk as roots, agents that delegate as nodes, and tools that run nodes."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.workflow import START, RetryConfig, Workflow

from tests.adk import programs
from tests.adk.test_graphs import Clerk, outputs
from tests.support.runtimes import Deploy, run_turn


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
