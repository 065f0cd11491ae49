"""Agents and graphs in graphs that are tried again, or take too long (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors import START, Content, CustomAgent, Event, Graph, InvocationContext, LlmAgent, NodeContext, RetryConfig, node
from actors.errors import AgentFailedError
from actors.testing import ScriptedModel
from tests.support.graphs import ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored

SOON = RetryConfig(max_attempts=3, initial_delay=0.01)


def test_an_agent_is_asked_the_same_again_when_it_fails(deploy: Deploy) -> None:
    model = ScriptedModel([ValueError("not now"), {"call": "look"}, ValueError("not now"), "at last"])

    def look() -> str:
        """Look it up."""
        return "seen"

    agent = node(LlmAgent(name="m", model=model, tools=[look]), retry_config=SOON)
    with deploy(Graph(name="wf", edges=[(START, agent, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert [event.error_code for event in events if event.error_code] == ["ValueError", "ValueError"]
        assert ends(events) == {"wf@1/last@1": "last(at last)"}
    # It sees nothing of what it has done before.
    assert [len(request.contents) for request in model.requests] == [1, 1, 3, 1]


def test_an_agent_that_fails_each_time_ends_the_graph(deploy: Deploy) -> None:
    model = ScriptedModel([ValueError("no"), KeyError("other"), "never"])
    retry = RetryConfig(max_attempts=5, initial_delay=0.01, exceptions=[ValueError])
    with deploy(Graph(name="wf", edges=[(START, node(LlmAgent(name="m", model=model), retry_config=retry))])) as rt:
        with pytest.raises(AgentFailedError, match="other"):
            run_turn(rt, "go")
        assert [event.error_code for event in stored(rt) if event.error_code] == ["ValueError", "KeyError"]


def test_a_graph_that_is_tried_again_keeps_what_has_ended_in_it(deploy: Deploy) -> None:
    def count(ctx: NodeContext) -> int:
        ctx.state["counted"] = ctx.state.get("counted", 0) + 1
        number: int = ctx.state["counted"]
        return number

    def fail(ctx: NodeContext, node_input: int) -> str:
        ctx.state["failed"] = ctx.state.get("failed", 0) + 1
        if ctx.state["failed"] < 3:
            raise ValueError("not yet")
        return f"{node_input} at {ctx.attempt_count}"

    below = Graph(name="below", edges=[(START, count, fail)])
    with deploy(Graph(name="wf", edges=[(START, node(below, retry_config=SOON), named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(1 at 1)"
        assert [event.error_code for event in stored(rt) if event.error_code] == ["ValueError", "ValueError"]


class Sleeper(CustomAgent):
    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("just a moment", role="model"))
        await asyncio.sleep(30)


def test_an_agent_that_takes_too_long_is_stopped(deploy: Deploy) -> None:
    # The agent's process has to start within that time as well.
    timeout = 0.3 if deploy.engine == "local" else 3.0
    with deploy(Graph(name="wf", edges=[(START, node(Sleeper(name="sleeper"), timeout=timeout))])) as rt:
        with pytest.raises(Exception, match=rf"Node 'sleeper' timed out after {timeout} seconds"):
            run_turn(rt, "go")
        log = stored(rt)
        assert texts(log)[-1] == "just a moment"
        assert [(event.error_code, event.author) for event in log if event.error_code] == [("NodeTimeoutError", "wf")]
