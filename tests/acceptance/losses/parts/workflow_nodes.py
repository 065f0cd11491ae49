"""Trees of which actors are lost: graphs with workflow agents, flows, and custom agents with children as nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from actors import (
    START,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    FunctionNode,
    Graph,
    InvocationContext,
    JoinNode,
    LongRunningFunctionTool,
    NodeContext,
    RetryConfig,
    node,
)
from tests.acceptance.losses.parts.agents import ask, counter, talker
from tests.support.agents.failing_agents import agent_failing_first
from tests.support.agents.workflow_agents import CountingAgent, loop, par, says, seq


def graph_of_workflows() -> BaseAgent:
    """A sequence, twice in a circle, with a loop, agents side by side, a graph and a custom agent with a child in it."""

    def again(ctx: NodeContext, node_input: object) -> object:
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.route = "again" if ctx.state["rounds"] < 2 else "done"
        return node_input

    inner = loop("inner", counter("c"), CountingAgent(name="d", key="d", when=2), times=3, absorb=True)
    beside = par("beside", counter("x"), seq("y", says("y1"), talker("y2")))
    below = Graph(name="below", edges=[(START, talker("n"), FunctionNode(lambda node_input: f"{node_input}!", name="f"))])
    steps = seq("steps", beside, inner, Chief(name="chief", sub_agents=[talker("i")]), below)
    return Graph(name="graph", edges=[(START, steps, again, {"again": steps, "done": talker("last")})])


class Chief(CustomAgent):
    """Speaks before and after its child has worked."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("chief begins", role="model"))
        await context.run_agent("i")
        yield Event(content=Content.of_text("chief ends", role="model"))


def graph_of_workflows_pausing() -> BaseAgent:
    """An agent waits for the user in a sequence in a parallel that is a node; then a sequence fails once, and begins anew."""
    wait = talker("h", ("tool:", "h has heard"), (".*", {"call": "ask"}), tools=[LongRunningFunctionTool(ask)])
    steps = par("p", seq("s", talker("a"), wait, counter("b")), talker("x"))
    failing = seq("f", counter("e"), agent_failing_first("g", 1))
    soon = RetryConfig(max_attempts=3, initial_delay=5)
    edges = [(START, (steps, counter("z")), JoinNode("both"), node(failing, retry_config=soon), talker("last"))]
    return Graph(name="graph", edges=edges)
