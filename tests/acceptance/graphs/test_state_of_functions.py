"""Functions of one graph that run at the same time have one state (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import (
    START,
    Event,
    FunctionNode,
    Graph,
    JoinNode,
    LlmAgent,
    NodeContext,
    RetryConfig,
    SequentialAgent,
    ToolContext,
    node,
)
from actors.errors import AgentFailedError, DynamicNodeFailError
from actors.testing import ScriptedModel
from tests.support.graphs import ends
from tests.support.runtimes import Deploy, run_turn, stored_state


def written(events: list[Event]) -> dict[str, list[dict[str, Any]]]:
    """What each node has written, event by event."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event.node_info is not None and event.actions.state_delta:
            found.setdefault(event.node_info.path, []).append(dict(event.actions.state_delta))
    return found


async def has(ctx: NodeContext, key: str) -> Any:
    """The value of a key, once another function has written it."""
    async with asyncio.timeout(20):
        while ctx.state.get(key) is None:  # noqa: ASYNC110 - written where no event can be set
            await asyncio.sleep(0.001)
    return ctx.state[key]


def counting(name: str) -> FunctionNode:
    async def count(ctx: NodeContext) -> Any:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.state["temp:n"] = ctx.state.get("temp:n", 0) + 1
        # The other one has counted before this one ends.
        await asyncio.sleep(0.05)
        return ctx.state["n"] + ctx.state["temp:n"]

    return FunctionNode(count, name=name)


def test_two_functions_that_run_at_once_count_two(deploy: Deploy) -> None:
    async def last(n: int) -> int:
        return n

    with deploy(Graph(name="wf", edges=[(START, (counting("a"), counting("b")), JoinNode("both"), last)])) as rt:
        events = run_turn(rt, "go")
        assert stored_state(rt) == {"n": 2}
    assert ends(events)["wf@1/last@1"] == 2
    assert written(events) == {"wf@1/a@1": [{"n": 1}], "wf@1/b@1": [{"n": 2}]}
    # Each reads what it has written itself.
    assert (ends(events)["wf@1/a@1"], ends(events)["wf@1/b@1"]) == (2, 4)


def test_sync_functions_in_threads_count_all(deploy: Deploy) -> None:
    def counting_in_thread(name: str) -> FunctionNode:
        def count(ctx: NodeContext, n: int = 0) -> None:
            ctx.state["n"] = n + 1
            ctx.state["m"] = ctx.state.get("m", 0) + 1

        return FunctionNode(count, name=name)

    async def last(n: int, m: int) -> list[int]:
        return [n, m]

    fan = tuple(counting_in_thread(f"f{number}") for number in range(8))
    with deploy(Graph(name="wf", edges=[(START, fan, JoinNode("all"), last)])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == [8, 8]


def test_functions_see_each_other_before_either_has_ended(deploy: Deploy) -> None:
    async def ask(ctx: NodeContext) -> Any:
        ctx.state["asked"] = ["how many?"]
        found = await has(ctx, "user:answer")
        ctx.state["temp:heard"] = True
        return found

    async def answer(ctx: NodeContext) -> AsyncIterator[None]:
        (await has(ctx, "asked")).append("once more: how many?")
        ctx.state["user:answer"] = 3
        yield None
        await has(ctx, "temp:heard")
        del ctx.state["user:answer"]

    with deploy(Graph(name="wf", edges=[(START, (ask, answer), JoinNode("all"))])) as rt:
        events = run_turn(rt, "go")
        assert stored_state(rt) == {"asked": ["how many?", "once more: how many?"], "user:answer": None}
    assert ends(events)["wf@1/ask@1"] == 3
    assert written(events)["wf@1/answer@1"][-1] == {"user:answer": None}


def test_items_of_a_worker_and_runs_below_a_function_have_its_state(deploy: Deploy) -> None:
    async def add(ctx: NodeContext, node_input: int) -> Any:
        await asyncio.sleep(0.02 * node_input)
        ctx.state["sum"] = ctx.state.get("sum", 0) + node_input
        await asyncio.sleep(0.1)
        return ctx.state["sum"]

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        ctx.state["sum"] = 10
        return await ctx.run_node(node(add, parallel_worker=True), [1, 2, 3])

    with deploy(Graph(name="wf", edges=[(START, chief)])) as rt:
        events = run_turn(rt, "go")
    assert ends(events)["wf@1/chief@1"] == [11, 13, 16]
    # The end of the function comes last, and has what it has written itself.
    assert written(events)["wf@1/chief@1"] == [{"sum": 10}]


def test_what_was_stored_by_another_meanwhile_is_read_and_can_be_written_over(deploy: Deploy) -> None:
    async def one(ctx: NodeContext) -> AsyncIterator[Event | None]:
        ctx.state["n"] = 1
        yield None
        ctx.state["waits"] = True
        await has(ctx, "two")
        before = ctx.state["n"]
        # The value that it has stored before: it is written once more.
        ctx.state["n"] = 1
        yield Event(output=before)

    async def two(ctx: NodeContext) -> AsyncIterator[None]:
        await has(ctx, "waits")
        ctx.state["n"] = 5
        yield None
        ctx.state["two"] = True

    with deploy(Graph(name="wf", edges=[(START, (one, two), JoinNode("all"))])) as rt:
        events = run_turn(rt, "go")
        assert stored_state(rt)["n"] == 1
    assert ends(events)["wf@1/one@1"] == 5


def test_what_is_not_stored_is_seen_no_more_when_its_function_has_ended(deploy: Deploy) -> None:
    async def slow(ctx: NodeContext) -> None:
        ctx.state["slow"] = 1
        await asyncio.sleep(60)

    async def failing(ctx: NodeContext) -> None:
        ctx.state["failed"] = 1
        raise ValueError("no")

    @node(rerun_on_resume=True)
    async def between(ctx: NodeContext) -> None:
        ctx.state["between"] = 1
        await ctx.run_node(failing)

    async def chief(ctx: NodeContext) -> Any:
        seen = {key: ctx.state.get(key) for key in ("slow", "failed", "between")}
        if ctx.attempt_count == 1:
            await ctx.run_node(slow)
        try:
            await ctx.run_node(between)
        except DynamicNodeFailError:
            seen |= {f"{key} now": ctx.state.get(key) for key in ("failed", "between")}
        return seen

    tried = FunctionNode(
        chief, timeout=0.3, rerun_on_resume=True, retry_config=RetryConfig(max_attempts=2, initial_delay=0.01, jitter=0)
    )
    with deploy(Graph(name="wf", edges=[(START, tried)])) as rt:
        events = run_turn(rt, "go")
        assert stored_state(rt) == {"failed": 1}
    assert ends(events)["wf@1/chief@1"] == {
        "slow": None,
        "failed": None,
        "between": None,
        # The event of the failure has stored it. The function above it has told no failure of its own.
        "failed now": 1,
        "between now": None,
    }


def test_a_turn_that_fails_leaves_only_what_was_stored(deploy: Deploy) -> None:
    async def waits(ctx: NodeContext) -> None:
        ctx.state["lost"] = 1
        await asyncio.sleep(60)

    async def fails(ctx: NodeContext) -> None:
        ctx.state["kept"] = await has(ctx, "lost")
        raise ValueError("no")

    with deploy(Graph(name="wf", edges=[(START, (waits, fails))])) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, "go")
        assert stored_state(rt) == {"kept": 1}


class Looking:
    """Agents that read keys of the state by a tool, and what each has read."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys

    def agent(self, name: str, **fields: Any) -> LlmAgent:
        keys = self._keys

        def look(tool_context: ToolContext) -> dict[str, Any]:
            """Look."""
            return {key: tool_context.state.get(key) for key in keys}

        return LlmAgent(name=name, model=ScriptedModel([{"call": "look"}, f"{name} has looked"]), tools=[look], **fields)


def looked(events: list[Event]) -> dict[str, dict[str, Any]]:
    """What each agent has read."""
    return {event.author: dict(answer.response) for event in events for answer in event.function_responses()}


def test_an_agent_that_a_function_runs_sees_what_that_has_not_stored(deploy: Deploy) -> None:
    reader = Looking("topic", "temp:more", "old", "gone").agent("reader", instruction="Talk of {topic}, {old}.")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        ctx.state["topic"] = "cats"
        ctx.state["temp:more"] = ["and"]
        ctx.state["temp:more"].append("dogs")
        ctx.state["old"] = 2
        ctx.state["gone"] = None
        return await ctx.run_node(reader, "go")

    with deploy(Graph(name="wf", edges=[(START, chief)], sub_agents=[reader])) as rt:
        rt.sessions.create("ada", "s1", state={"old": 1, "gone": 1})
        events = run_turn(rt, "go")
        assert stored_state(rt) == {"topic": "cats", "old": 2, "gone": None}
    assert looked(events) == {"reader": {"topic": "cats", "temp:more": ["and", "dogs"], "old": 2, "gone": None}}
    # The events of the agent have none of it.
    assert written(events) == {"wf@1/chief@1": [{"topic": "cats", "old": 2, "gone": None}]}


def test_what_is_stored_meanwhile_is_newer_for_agents_as_well(deploy: Deploy) -> None:
    looking = Looking("n")
    writer = LlmAgent(name="writer", model=ScriptedModel(["written"]), output_key="n")
    steps = SequentialAgent(name="steps", sub_agents=[looking.agent("before"), writer, looking.agent("after")])
    own = looking.agent("own", output_key="n")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        ctx.state["n"] = 1
        await ctx.run_node(steps, "go")
        await ctx.run_node(own, "go")
        ctx.state["n"] = 2
        return await ctx.run_node(last, "go")

    last = looking.agent("last")
    with deploy(Graph(name="wf", edges=[(START, chief)], sub_agents=[steps, own, last])) as rt:
        events = run_turn(rt, "go")
        assert stored_state(rt) == {"n": 2}
    assert looked(events) == {"before": {"n": 1}, "after": {"n": "written"}, "own": {"n": "written"}, "last": {"n": 2}}


def test_agents_and_functions_of_a_graph_in_it_see_what_the_functions_around_have_not_stored(deploy: Deploy) -> None:
    looking = Looking("outer", "inner", "both")

    def middle(ctx: NodeContext) -> Any:
        return [ctx.state["outer"], ctx.state["both"]]

    @node(rerun_on_resume=True)
    async def below(ctx: NodeContext) -> Any:
        ctx.state["inner"] = "new"
        ctx.state["both"] += 1
        return await ctx.run_node(reader, "go")

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        ctx.state["outer"], ctx.state["both"] = "old", 1
        return await ctx.run_node(inner, "go")

    reader = looking.agent("reader")
    inner = Graph(name="inner", edges=[(START, middle, below)], sub_agents=[reader])
    with deploy(Graph(name="wf", edges=[(START, chief)], sub_agents=[inner])) as rt:
        events = run_turn(rt, "go")
    assert ends(events)["wf@1/chief@1/inner@1/middle@1"] == ["old", 1]
    assert looked(events) == {"reader": {"outer": "old", "inner": "new", "both": 2}}


def test_an_agent_along_an_edge_sees_what_a_function_beside_it_has_not_stored(deploy: Deploy) -> None:
    reader = Looking("x").agent("reader")

    async def slow(ctx: NodeContext) -> None:
        ctx.state["x"] = 1
        await asyncio.sleep(0.3)

    async def soon() -> None:
        await asyncio.sleep(0.05)

    with deploy(Graph(name="wf", edges=[(START, (slow, soon)), (soon, reader)])) as rt:
        assert looked(run_turn(rt, "go")) == {"reader": {"x": 1}}
