"""Agents that are tools: what stops them, and that transfers do not reach them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from actors import AgentTool, LlmAgent, ParallelAgent, ToolContext
from actors.layers.trees.tree import AgentTree
from actors.messages import protocol as p
from actors.rules.routing.selection import select_agent
from actors.rules.routing.transfer import route_refusal
from actors.testing import ScriptedModel
from tests.support.fixtures.runner_fixture import RunnerFixture

Build = Callable[..., RunnerFixture]


def hanging() -> tuple[Callable[[], Awaitable[None]], asyncio.Event, asyncio.Event]:
    """A tool that never returns, called `hang`; and the events that it has begun, and that it was stopped."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    return hang, started, stopped


async def test_a_parallel_that_fails_stops_those_whom_its_children_ask(build: Build) -> None:
    hang, started, stopped = hanging()

    async def fall(_: Any) -> None:
        await started.wait()
        raise ValueError("kaput")

    expert = LlmAgent(name="expert", model=ScriptedModel([{"call": "hang"}]), tools=[hang])
    asks = ScriptedModel([{"call": "expert", "args": {"request": "why?"}}])
    asker = LlmAgent(name="asker", model=asks, tools=[AgentTool(expert)])
    other = LlmAgent(name="other", model=ScriptedModel([]), before_agent_callback=fall)
    _, outcome = await build(ParallelAgent(name="both", sub_agents=[asker, other])).run()
    assert isinstance(outcome, p.Failed)
    assert stopped.is_set()


async def test_it_stops_when_another_call_beside_it_fails_the_run(build: Build) -> None:
    hang, started, stopped = hanging()

    async def fall(tool: Any, args: Any, context: ToolContext) -> None:
        if tool.name == "other":
            await started.wait()
            raise ValueError("kaput")

    def other() -> None:
        """Never runs."""

    expert = LlmAgent(name="expert", model=ScriptedModel([{"call": "hang"}]), tools=[hang])
    calls = [{"call": "expert", "args": {"request": "why?"}}, {"call": "other"}]
    root = LlmAgent(
        name="root", model=ScriptedModel([{"parts": calls}]), tools=[AgentTool(expert), other], before_tool_callback=fall
    )
    _, outcome = await build(root).run()
    assert isinstance(outcome, p.Failed)
    assert stopped.is_set()


async def test_a_tool_cannot_hand_the_turn_to_it(build: Build) -> None:
    def jump(context: ToolContext) -> None:
        context.actions.transfer_to_agent = "expert"

    expert = LlmAgent(name="expert", model=ScriptedModel([]))
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "jump"}]), tools=[AgentTool(expert), jump])
    _, outcome = await build(root).run()
    assert isinstance(outcome, p.Failed)
    assert (outcome.error_code, "used as a tool" in outcome.error_message) == ("TransferTargetError", True)


def test_it_and_those_below_it_are_never_selected_nor_reached() -> None:
    expert = LlmAgent(name="expert", sub_agents=[LlmAgent(name="helper")])
    tree = AgentTree(LlmAgent(name="root", tools=[AgentTool(expert)], sub_agents=[LlmAgent(name="a")])).topology
    assert select_agent(tree, ["expert", "helper", "a"]).agent == "a"
    assert select_agent(tree, ["a"], caller="helper").agent == "a"
    assert "used as a tool" in str(route_refusal(tree, "helper", None))
    assert route_refusal(tree, "helper", "expert") is None
    assert "'expert'" in str(route_refusal(tree, "a", "expert"))
