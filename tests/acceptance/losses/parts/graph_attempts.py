"""Graphs that are tried again as a whole, and a task agent as the root, of which actors are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from actors import (
    START,
    BaseAgent,
    Content,
    FunctionNode,
    Graph,
    JoinNode,
    NodeContext,
    Part,
    Placement,
    RequestInput,
    RetryConfig,
    SequentialAgent,
    ToolContext,
    node,
)
from tests.acceptance.losses.parts.agents import count, counter, talker
from tests.support.agents.failing_agents import agent_failing_first

SOON = RetryConfig(max_attempts=5, initial_delay=5)


def graph_attempts() -> BaseAgent:
    """The root fails by a function, by an agent, and by a graph in it, which has attempts of its own; it asks the user, too."""

    def fail_first(ctx: NodeContext, node_input: object) -> object:
        ctx.state["tried"] = ctx.state.get("tried", 0) + 1
        if ctx.state["tried"] % 3:
            raise ValueError("at first")
        return node_input

    def ask() -> RequestInput:
        return RequestInput(interrupt_id="h", message="Which?")

    below = Graph(
        name="below", edges=[(START, counter("b"), fail_first)], retry_config=RetryConfig(max_attempts=2, initial_delay=5)
    )
    edges = [(START, counter("x"), agent_failing_first("a", 1), ask, below, talker("last"))]
    return Graph(name="h", edges=edges, retry_config=SOON)


def task_root() -> BaseAgent:
    """The root works on its task with the user, whose second message is for it."""
    finish = {"call": "finish_task", "args": {"result": "Rome"}}
    call = {"call": "count", "args": {"key": "t"}}
    return talker("t", ("more", finish), ("tool:", "Where to?"), (".*", call), tools=[count], mode="task", output_key="trip")


def fan_of_agents() -> BaseAgent:
    """Agents side by side, whose ends are stored together, and what follows from them."""
    fan = (counter("a"), counter("b"), counter("c"), counter("d"))
    return Graph(name="graph", edges=[(START, fan, JoinNode("all"), counter("e"))])


def placed_functions() -> BaseAgent:
    """Functions in actors of their own: one asks the user, fails at first and says a route; a worker fails for an item."""

    def choose(ctx: NodeContext, node_input: object) -> list[str] | RequestInput:
        if "h" not in ctx.resume_inputs:
            return RequestInput(interrupt_id="h")
        if ctx.attempt_count == 1:
            raise ValueError("at first")
        ctx.state["chosen"] = ctx.state.get("chosen", 0) + 1
        ctx.route = "work"
        return ["x", "y", "z"]

    def work(node_input: str) -> str:
        if node_input == "y":
            raise ValueError("not y")
        return f"worked on {node_input}"

    own = Placement(num_cpus=0.01)
    chooser = FunctionNode(choose, name="h", placement=own, rerun_on_resume=True, retry_config=SOON)
    worker = node(FunctionNode(work, placement=own), parallel_worker=True, partial_results=True)
    return Graph(name="graph", edges=[(START, counter("a"), chooser, {"work": worker}), (worker, talker("last"))])


def tool_running_nodes() -> BaseAgent:
    """A tool runs a function that counts, twice, and an agent; another call does so after it; in a graph."""

    def counts(ctx: NodeContext, node_input: str) -> str:
        key = f"counted_{node_input}"
        ctx.state[key] = ctx.state.get(key, 0) + 1
        return f"{node_input} {ctx.state[key]}"

    async def work(what: str, tool_context: ToolContext) -> str:
        """Work on something."""
        counted = await tool_context.run_node(counts, what)
        said = await tool_context.run_node("clerk", what)
        return f"{counted}, {said}, {await tool_context.run_node(counts, what)}"

    first, second = ({"parts": [{"call": "work", "id": what, "args": {"what": what}}]} for what in ("x", "y"))
    clerk = talker("clerk", ("tool:", "clerk has looked"), (".*", {"call": "look"}), tools=[look])
    replies = (("tool:.*y 1", "boss has worked"), ("tool:", second), ("go", first))
    boss = talker("boss", *replies, tools=[work], sub_agents=[clerk])
    return Graph(name="graph", edges=[(START, boss, talker("last"))])


def look() -> str:
    """Look it up."""
    return "seen"


def functions_sharing_state() -> BaseAgent:
    """Functions that each wait for what the other has written, and not stored; an agent reads both."""

    async def seen(ctx: NodeContext, key: str) -> object:
        async with asyncio.timeout(20):
            while ctx.state.get(key) is None:  # noqa: ASYNC110 - written where no event can be set
                await asyncio.sleep(0.001)
        return ctx.state[key]

    async def x(ctx: NodeContext) -> object:
        ctx.state["x"] = ["from x"]
        return await seen(ctx, "y")

    async def y(ctx: NodeContext) -> AsyncIterator[object]:
        ctx.state["temp:y"] = await seen(ctx, "x")
        ctx.state["y"] = "from y"
        yield Content(parts=[Part(text=f"y has {ctx.state['temp:y']}")])
        yield await seen(ctx, "x")

    def ask() -> RequestInput:
        return RequestInput(interrupt_id="h")

    return Graph(name="h", edges=[(START, (x, y), JoinNode("all"), ask, counter("c"))])


def functions_lending_state() -> BaseAgent:
    """A function writes what agents read that it runs, before it is stored: one alone, one in a sequence, one in a graph."""

    def look(tool_context: ToolContext) -> dict[str, object]:
        """Look."""
        return {key: tool_context.state.get(key) for key in ("x", "y", "temp:z")}

    def reading(name: str) -> BaseAgent:
        steps = [("tool:", f"{name} has looked"), (".*", {"call": "look"})]
        return talker(name, *steps, tools=[look], instruction="{x?} {y?}")

    def seen(ctx: NodeContext) -> str:
        ctx.state["temp:seen"] = [ctx.state["y"]]
        return f"seen {ctx.state['x']} {ctx.state['y']}"

    async def chief(ctx: NodeContext) -> object:
        ctx.state["x"] = "one"
        ctx.state["temp:z"] = ["z"]
        first = await ctx.run_node(alone, "go")
        await ctx.run_node(ask)
        ctx.state["y"] = "two"
        return [first, await ctx.run_node(steps, "go"), await ctx.run_node(inner, "go")]

    def ask() -> RequestInput:
        return RequestInput(interrupt_id="h")

    alone, steps = reading("alone"), SequentialAgent(name="steps", sub_agents=[counter("c"), reading("after")])
    inner = Graph(name="inner", edges=[(START, seen, reading("last"))])
    return Graph(name="h", edges=[(START, FunctionNode(chief, rerun_on_resume=True))], sub_agents=[alone, steps, inner])
