"""The trees of agents of which actors are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pydantic

from actors import (
    START,
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    FunctionCall,
    FunctionNode,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    LongRunningFunctionTool,
    NodeContext,
    Part,
    Placement,
    ReadonlyContext,
    RequestInput,
    RetryConfig,
    SequentialAgent,
    Tool,
    ToolContext,
    Toolset,
    node,
)
from actors.errors import DynamicNodeFailError
from actors.testing import PatternModel
from tests.support.agents.conversation_tools import LockedToolset, count_begin
from tests.support.agents.failing_agents import SKIP, agent_failing_first, restart
from tests.support.agents.workflow_agents import CountingAgent, loop, par, says, seq
from tests.support.models.metered_model import MeteredModel
from tests.support.vectors.vector_agents import SayingAgent

Tree = Callable[[], BaseAgent]


def count(key: str, tool_context: ToolContext) -> str:
    """Count in the session's state."""
    tool_context.state[key] = tool_context.state.get(key, 0) + 1
    tool_context.state["temp:last"] = key
    return f"{key} {tool_context.state[key]}"


def ask() -> None:
    """Ask a human."""


def talker(name: str, *replies: tuple[str, Any], **fields: Any) -> LlmAgent:
    """An agent whose model has no state: the same request gets the same response."""
    return LlmAgent(name=name, model=MeteredModel(PatternModel([*replies, (".*", f"{name} is done")])), **fields)


def counter(name: str, **fields: Any) -> LlmAgent:
    """An agent that calls a tool, and then answers."""
    call = {"parts": [{"call": "count", "args": {"key": name}}, {"call": "count", "args": {"key": f"{name}2"}}]}
    return talker(name, ("tool:", f"{name} has counted"), (".*", call), tools=[count], **fields)


def asker(name: str) -> LlmAgent:
    """An agent that asks a human, and then answers."""
    return talker(name, ("tool:", f"{name} has heard"), (".*", {"call": "ask"}), tools=[LongRunningFunctionTool(ask)])


def planner() -> LlmAgent:
    """An agent that works on a task with the user, whose second message is for it."""
    finish = {"call": "finish_task", "args": {"result": "Rome"}}
    call = {"call": "count", "args": {"key": "t"}}
    return talker("t", ("more", finish), ("tool:", "Where to?"), (".*", call), tools=[count], mode="task", output_key="trip")


def again(ctx: NodeContext, node_input: object) -> object:
    """Take a circle's way back once."""
    ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
    ctx.route = "again" if ctx.state["rounds"] < 2 else "done"
    return node_input


def asks() -> RequestInput:
    """Ask the user."""
    return RequestInput(interrupt_id="h", message="Which?")


class Wanted(pydantic.BaseModel):
    """The input of an agent."""

    number: int


def note_run(callback_context: CallbackContext) -> None:
    callback_context.state["runs"] = callback_context.state.get("runs", 0) + 1


def sign(callback_context: CallbackContext) -> str:
    return f"signed by {callback_context.agent_name}"


def transfers() -> BaseAgent:
    last = counter("b", before_agent_callback=note_run, after_agent_callback=sign)
    return talker("root", (".*", {"transfer": "a"}), sub_agents=[talker("a", (".*", {"transfer": "b"})), last])


def nested() -> BaseAgent:
    inner = loop("inner", counter("c"), CountingAgent(name="d", key="d", when=4), times=3, absorb=True)
    return loop("outer", SayingAgent(name="a", say=["a1", "a2"]), inner, CountingAgent(name="e", key="e", when=2), times=3)


def side_by_side() -> BaseAgent:
    return seq(
        "root",
        par(
            "p",
            counter("x"),
            seq("y", SayingAgent(name="y1", say=["y1"]), counter("y2")),
            SayingAgent(name="z", say=["z1", "z2"]),
        ),
        counter("w"),
    )


def pausing() -> BaseAgent:
    return loop("lp", counter("a"), par("p", seq("s", asker("h"), counter("b")), counter("x")), times=1)


def questioning() -> BaseAgent:
    """One of two calls of a response asks the user something in its middle."""
    calls = {"parts": [{"call": "inquire"}, {"call": "count", "args": {"key": "h"}}]}
    wait = talker("h", ("tool:", "h has heard"), (".*", calls), tools=[inquire, count])
    return seq("s", wait, counter("b"))


def inquire(tool_context: ToolContext) -> str | None:
    """Ask the user."""
    if tool_context.input is None:
        tool_context.request_input({"message": "Which?"}, {"memo": 1})
        return None
    return f"{tool_context.input}"


def supervised() -> BaseAgent:
    """Restarts the child that fails once, and skips the loop's workers, which fail in every run."""
    worker = seq("worker", says("b"), agent_failing_first("c"), supervision=restart(1))
    steady = agent_failing_first(
        "e", 2, ("tool:", "e has counted"), (".*", {"call": "count", "args": {"key": "e"}}), tools=[count]
    )
    return seq(
        "root",
        loop("lp", worker, says("d"), times=2, supervision=SKIP),
        seq("s", steady, supervision=restart(2, backoff_s=5)),
    )


def supervised_side_by_side() -> BaseAgent:
    again = par(
        "p",
        agent_failing_first("x", 1),
        agent_failing_first("y", 1),
        seq("s", says("s1"), agent_failing_first("s2", 1)),
        asker("h"),
        supervision=restart(2, backoff_s=5),
    )
    without = par("q", says("z"), agent_failing_first("u"), agent_failing_first("v"), supervision=SKIP)
    return seq("root", again, without)


def asking() -> BaseAgent:
    """Asks an agent twice at once, and another beside it, which transfers."""
    clerk = talker("clerk", ("tool:", "clerk has looked"), (".*", {"call": "look"}), tools=[look])
    steps = seq("steps", SayingAgent(name="s1", say=["s1a", "s1b"]), clerk, says("s2"))
    guide = talker("guide", (".*", {"transfer": "deep"}), sub_agents=[counter("deep")])
    calls = [{"call": name, "id": f"{name}{number}", "args": {"request": f"{name} {number}"}} for name, number in ASKED]
    return talker("root", ("tool:", "root has asked"), ("go", {"parts": calls}), tools=[AgentTool(steps), AgentTool(guide)])


ASKED = (("steps", 1), ("steps", 2), ("guide", 1))


def look() -> str:
    """Look it up."""
    return "seen"


def graphs() -> BaseAgent:
    """Functions, a generator, agents with tools, a join, a circle, and a graph in the graph."""

    def begin(ctx: NodeContext) -> str:
        return f"round {ctx.run_id}"

    async def yields(ctx: NodeContext, node_input: str) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("first", role="model"))
        yield Event(content=Content.of_text("second", role="model"), output=node_input)
        ctx.state["yielded"] = True

    def fail_first(ctx: NodeContext, node_input: object) -> object:
        if ctx.attempt_count == 1:
            raise ValueError("at first")
        return node_input

    tried = FunctionNode(fail_first, retry_config=RetryConfig(max_attempts=3, initial_delay=5))
    below = Graph(name="below", edges=[(START, counter("b"), tried)])
    both = JoinNode("both")
    edges = [(START, begin, (counter("a"), yields, below), both, again, {"again": begin, "done": talker("last")})]
    return Graph(name="graph", edges=edges)


def graph_pausing() -> BaseAgent:
    """One agent waits for the user, and what does not need it goes on."""
    both = JoinNode("both")
    below = Graph(name="below", edges=[(START, asker("h"))])
    return Graph(name="graph", edges=[(START, (below, counter("x")), both, counter("b"))])


def graph_asking() -> BaseAgent:
    """Functions ask the user in the middle of what they say; one of them is called again with the answer."""

    async def asks(ctx: NodeContext) -> AsyncIterator[object]:
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        yield Content.of_text(f"asking {ctx.state['asked']}", role="model")
        if "h" in ctx.resume_inputs:
            yield f"heard {ctx.resume_inputs['h']}"
        else:
            yield RequestInput(interrupt_id="h", message="Which?")
            yield Content.of_text("waiting", role="model")

    again = FunctionNode(asks, rerun_on_resume=True)
    edges = [(START, (again, counter("x")), JoinNode("both"), counter("b"))]
    return Graph(name="graph", edges=[(START, Graph(name="h", edges=edges), talker("last"))])


def graph_below() -> BaseAgent:
    """A node for each item of a list, and a function that runs an agent, asks the user, and excuses what fails."""

    def items() -> list[str]:
        return ["x", "y"]

    def ask() -> RequestInput:
        return RequestInput(interrupt_id="q", message="Which?")

    def fail() -> None:
        raise ValueError("no luck")

    async def chief(ctx: NodeContext, node_input: object) -> list[object]:
        found: list[object] = [await ctx.run_node("below", "go"), await ctx.run_node(ask)]
        try:
            await ctx.run_node(fail)
        except DynamicNodeFailError as error:
            found.append(str(error))
        return found

    # Both items at once: what they counted in one state would depend on who comes first.
    looks = talker("w", ("tool:", "w has looked"), (".*", {"call": "look"}), tools=[look])
    worker = node(looks, parallel_worker=True)
    edges = [(START, items, worker, FunctionNode(chief, rerun_on_resume=True), talker("last"))]
    return Graph(name="h", edges=edges, sub_agents=[counter("below")])


def graph_tried_again() -> BaseAgent:
    """An agent that fails at first, and a graph in which a function does."""

    def fail_first(ctx: NodeContext) -> str:
        ctx.state["tried"] = ctx.state.get("tried", 0) + 1
        if ctx.state["tried"] % 2:
            raise ValueError("at first")
        return "went"

    soon = RetryConfig(max_attempts=5, initial_delay=5)
    below = Graph(name="below", edges=[(START, counter("b"), fail_first)])
    edges = [(START, node(agent_failing_first("a", 1), retry_config=soon), node(below, retry_config=soon), talker("last"))]
    return Graph(name="graph", edges=edges)


def graph_task() -> BaseAgent:
    """An agent works on a task with the user, whose second message is for it; beside it, and behind it, others work."""
    below = Graph(name="below", edges=[(START, planner())])
    return Graph(name="graph", edges=[(START, (below, counter("x")), JoinNode("both"), counter("b"))])


class BrokenToolset(Toolset):
    """Has no tools to give."""

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        raise ConnectionError("no server there")


def asking_for_a_key() -> BaseAgent:
    """A toolset asks the user before the agent can begin; what stands after it waits."""
    call = {"call": "count", "args": {"key": "h"}}
    wait = talker("h", ("tool:", "h has counted"), (".*", call), tools=[LockedToolset(count)], before_agent_callback=count_begin)
    return seq("s", counter("a"), wait, counter("b"))


def without_tools() -> BaseAgent:
    """An agent fails before its model is called, since its tools cannot be had; it is left out."""
    return seq("root", seq("s", talker("a", tools=[BrokenToolset()]), supervision=SKIP), counter("b"))


def graph_handing_over() -> BaseAgent:
    """An agent that is a node hands over to one below it, which answers; what it says goes on."""
    over = {"parts": [{"call": "transfer_to_agent", "args": {"agent_name": "expert"}}]}
    look = {"call": "count", "args": {"key": "d"}}
    desk = talker("desk", ("tool:", over), (".*", look), tools=[count], sub_agents=[counter("expert")])
    return Graph(name="graph", edges=[(START, counter("first"), desk, talker("last"))])


def graph_refusing() -> BaseAgent:
    """A function asks an agent and a graph what does not fit their schemas, is refused, and goes on."""

    async def ask_both(ctx: NodeContext) -> list[str]:
        found = []
        for name in ("strict", "below"):
            try:
                await ctx.run_node(name, "no number")
            except pydantic.ValidationError:
                found.append(f"{name} refused")
        return found

    strict = talker("strict", input_schema=Wanted)
    below = Graph(name="below", edges=[(START, counter("c"))], input_schema=Wanted)
    chief = FunctionNode(ask_both, rerun_on_resume=True)
    return Graph(name="graph", edges=[(START, chief, counter("last"))], sub_agents=[strict, below])


def calls(*names: str) -> Content:
    """Calls of tools that take one text; their ids stand in branches and paths."""
    made = [FunctionCall(id=f"call-{name}", name=name, args={"request": "go"}) for name in names]
    return Content(role="model", parts=[Part(function_call=call) for call in made])


def delegating() -> BaseAgent:
    """Two agents work for calls of one response, one of them with the user."""
    clerk = talker("clerk", mode="single_turn")
    boss = talker("boss", ("tool:", "boss has heard"), (".*", calls("t", "clerk")), sub_agents=[planner(), clerk])
    return seq("root", counter("a"), boss, counter("b"))


def delegating_to_graph() -> BaseAgent:
    """A graph works for a call, and asks the user."""

    graph = Graph(name="h", edges=[(START, counter("x"), asks, talker("last"))])
    return talker("boss", ("tool:", "boss has heard"), (".*", calls("h")), tools=[graph])


def delegating_to_function() -> BaseAgent:
    """A function works for a call: it runs others, one of which asks the user."""

    def counts(ctx: NodeContext, node_input: str) -> str:
        ctx.state["times"] = ctx.state.get("times", 0) + 1
        return f"{node_input} {ctx.state['times']}"

    async def h(ctx: NodeContext, request: str) -> str:
        """Find out."""
        before = await ctx.run_node(counts, request)
        chosen = await ctx.run_node(asks)
        return f"{await ctx.run_node(counts, chosen)} after {before}"

    return talker("boss", ("tool:", "boss has heard"), (".*", calls("h")), tools=[FunctionNode(h, rerun_on_resume=True)])


SOON = RetryConfig(max_attempts=5, initial_delay=5)


def graph_attempts() -> BaseAgent:
    """The root fails by a function, by an agent, and by a graph in it, which has attempts of its own; it asks the user, too."""

    def fail_first(ctx: NodeContext, node_input: object) -> object:
        ctx.state["tried"] = ctx.state.get("tried", 0) + 1
        if ctx.state["tried"] % 3:
            raise ValueError("at first")
        return node_input

    below = Graph(
        name="below", edges=[(START, counter("b"), fail_first)], retry_config=RetryConfig(max_attempts=2, initial_delay=5)
    )
    edges = [(START, counter("x"), agent_failing_first("a", 1), asks, below, talker("last"))]
    return Graph(name="h", edges=edges, retry_config=SOON)


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

    return Graph(name="h", edges=[(START, (x, y), JoinNode("all"), asks, counter("c"))])


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
        await ctx.run_node(asks)
        ctx.state["y"] = "two"
        return [first, await ctx.run_node(steps, "go"), await ctx.run_node(inner, "go")]

    alone, steps = reading("alone"), SequentialAgent(name="steps", sub_agents=[counter("c"), reading("after")])
    inner = Graph(name="inner", edges=[(START, seen, reading("last"))])
    return Graph(name="h", edges=[(START, FunctionNode(chief, rerun_on_resume=True))], sub_agents=[alone, steps, inner])


def graph_of_workflows() -> BaseAgent:
    """A sequence, twice in a circle, with a loop, agents side by side, a graph and a custom agent with a child in it."""

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
    steps = par("p", seq("s", talker("a"), asker("h"), counter("b")), talker("x"))
    failing = seq("f", counter("e"), agent_failing_first("g", 1))
    soon = RetryConfig(max_attempts=3, initial_delay=5)
    edges = [(START, (steps, counter("z")), JoinNode("both"), node(failing, retry_config=soon), talker("last"))]
    return Graph(name="graph", edges=edges)


TREES: dict[str, Tree] = {
    tree.__name__: tree
    for tree in (
        transfers,
        nested,
        side_by_side,
        pausing,
        questioning,
        asking_for_a_key,
        supervised,
        supervised_side_by_side,
        asking,
        graphs,
        graph_pausing,
        graph_asking,
        graph_below,
        graph_tried_again,
        graph_task,
        graph_attempts,
        fan_of_agents,
        functions_sharing_state,
        functions_lending_state,
        planner,
        placed_functions,
        tool_running_nodes,
        graph_handing_over,
        graph_refusing,
        graph_of_workflows,
        graph_of_workflows_pausing,
        delegating,
        delegating_to_graph,
        delegating_to_function,
        without_tools,
    )
}
