"""Functions of a Workflow that run at the same time have one state, as in google-adk: each Workflow runs there, and here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.context import Context
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.adk.sessions.state import StateSchemaError
from google.adk.tools import ToolContext
from google.adk.workflow import START, FunctionNode, JoinNode, Workflow
from google.genai import types
from pydantic import BaseModel

from runtime.adk import from_adk
from tests.adk.programs import Scripted
from tests.support.runtimes import Deploy, run_turn

Seen = tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, Any]]
"""The outputs by path, what each node has written event by event, and the state in the end."""


async def has(ctx: Context, key: str) -> Any:
    """The value of a key, once another function has written it."""
    async with asyncio.timeout(20):
        while ctx.state.get(key) is None:  # noqa: ASYNC110 - written where no event can be set
            await asyncio.sleep(0.001)
    return ctx.state[key]


def joined(*functions: Any) -> Workflow:
    return Workflow(name="wf", edges=[(START, functions, JoinNode(name="all"))])


def counting() -> Workflow:
    def count(ctx: Context, n: int = 0) -> None:
        ctx.state["n"] = n + 1

    def count_too(ctx: Context) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return 0

    return joined(count, count_too)


def seeing_each_other() -> Workflow:
    async def ask(ctx: Context) -> Any:
        ctx.state["temp:asked"] = ["how many?"]
        return await has(ctx, "user:answer")

    async def answer(ctx: Context) -> Any:
        ctx.state["user:answer"] = len(await has(ctx, "temp:asked"))
        return await has(ctx, "temp:asked")

    return joined(ask, answer)


def own_first() -> Workflow:
    async def one(ctx: Context) -> AsyncGenerator[Any, None]:
        ctx.state["n"] = 1
        ctx.state["one"] = 1
        await has(ctx, "two")
        before = ctx.state["n"]
        yield Event(state={"told": True})
        await has(ctx, "three")
        yield Event(output=[before, ctx.state["n"]])

    async def two(ctx: Context) -> None:
        await has(ctx, "one")
        ctx.state["n"] = 5
        ctx.state["two"] = 1
        await has(ctx, "told")

    async def three(ctx: Context) -> Any:
        await has(ctx, "told")
        async with asyncio.timeout(20):
            # Told after the first function has told its own.
            while ctx.state["n"] != 5:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.001)
        ctx.state["three"] = 1
        return ctx.state["n"]

    return joined(one, two, three)


def written_again() -> Workflow:
    async def one(ctx: Context) -> AsyncGenerator[Any, None]:
        for text in ("first", "second", "third"):
            if text != "third":
                ctx.state["n"] = 1
            yield Event(message=text)

    return Workflow(name="wf", edges=[(START, one)])


def changed_in_place() -> Workflow:
    async def one(ctx: Context) -> list[str]:
        ctx.state["cart"] = ["x"]
        ctx.state["one"] = 1
        await has(ctx, "two")
        ctx.state["cart"].append("z")
        ctx.state["three"] = 1
        return list(ctx.state["cart"])

    async def two(ctx: Context) -> None:
        await has(ctx, "one")
        ctx.state["cart"].append("y")
        ctx.state["two"] = 1
        await has(ctx, "three")

    return joined(one, two)


def below() -> Workflow:
    async def item(ctx: Context, node_input: int) -> Any:
        ctx.state["sum"] = ctx.state.get("sum", 0) + node_input
        return ctx.state["sum"]

    async def chief(ctx: Context) -> Any:
        ctx.state["sum"] = 10
        first = await ctx.run_node(item, 1)
        return [first, await ctx.run_node(item, 2), ctx.state["sum"]]

    return Workflow(name="wf", edges=[(START, FunctionNode(func=chief, rerun_on_resume=True))])


def lent_to_agents() -> Workflow:
    def look(tool_context: ToolContext) -> dict[str, Any]:
        """Look."""
        return {"topic": tool_context.state.get("topic"), "more": tool_context.state.get("temp:more")}

    def listens(ctx: Context) -> str:
        return f"{ctx.state['topic']} {ctx.state['last']}"

    async def chief(ctx: Context) -> Any:
        ctx.state["topic"] = "cats"
        ctx.state["temp:more"] = ["dogs"]
        said = await ctx.run_node(talker, "go")
        ctx.state["last"] = said
        return [said, await ctx.run_node(inner, "go"), ctx.state["answer"]]

    steps: list[Any] = [("look", {}), "show:last"]
    talker = LlmAgent(
        name="talker",
        model=Scripted(steps=steps),
        instruction="Of {topic}.",
        tools=[look],
        output_key="answer",
        mode="single_turn",
    )
    inner = Workflow(name="inner", edges=[(START, listens)])
    return Workflow(name="wf", edges=[(START, FunctionNode(func=chief, rerun_on_resume=True))])


WORKFLOWS = (counting, seeing_each_other, own_first, written_again, changed_in_place, below, lent_to_agents)


def told(events: list[Any], state: dict[str, Any]) -> Seen:
    outputs: dict[str, Any] = {}
    written: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        path = event.node_info.path if event.node_info is not None else ""
        if event.output is not None:
            outputs[path] = event.output
        if event.actions.state_delta:
            written.setdefault(path, []).append(dict(event.actions.state_delta))
    return outputs, written, state


async def by_adk(workflow: Workflow) -> Seen:
    runner = InMemoryRunner(node=workflow, app_name="test")
    where = {"app_name": "test", "user_id": "ada", "session_id": "s1"}
    await runner.session_service.create_session(**where)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    # A list in an event of a session in memory is the one that functions change further.
    events = [each.model_copy(deep=True) async for each in runner.run_async(user_id="ada", session_id="s1", new_message=message)]
    session = await runner.session_service.get_session(**where)
    assert session is not None
    return told(events, dict(session.state))


def by_runtime(workflow: Workflow, deploy: Deploy) -> Seen:
    with deploy(from_adk(workflow).root_agent) as rt:
        events = run_turn(rt, "go")
        session = rt.sessions.get("ada", "s1")
    assert session is not None
    return told(events, dict(session.state))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_functions_share_the_state_as_in_adk(workflow: Callable[[], Workflow], deploy: Deploy) -> None:
    assert by_runtime(workflow(), deploy) == asyncio.run(by_adk(workflow()))


class Counted(BaseModel):
    """What one graph writes."""

    n: int = 0


class Told(BaseModel):
    """What another graph writes."""

    text: str = ""


async def refused(ctx: Context) -> list[str]:
    """The keys that it may not write."""
    found = []
    for key, value in (("n", 1), ("text", "x"), ("user:any", 1)):
        try:
            ctx.state[key] = value
        except StateSchemaError:
            found.append(key)
    return found


def run_below() -> Workflow:
    async def chief(ctx: Context) -> Any:
        return [await refused(ctx), await ctx.run_node(refused)]

    function = FunctionNode(func=chief, rerun_on_resume=True, state_schema=Told)
    return Workflow(name="wf", edges=[(START, function)], state_schema=Counted)


def nested(**fields: Any) -> Workflow:
    lowest = Workflow(name="lowest", edges=[(START, refused)])
    return Workflow(name="wf", edges=[(START, Workflow(name="below", edges=[(START, lowest)], **fields))], state_schema=Counted)


@pytest.mark.parametrize("workflow", [run_below, nested, partial(nested, state_schema=Told)])
def test_a_state_schema_binds_what_is_below_as_in_adk(workflow: Callable[[], Workflow], deploy: Deploy) -> None:
    assert by_runtime(workflow(), deploy) == asyncio.run(by_adk(workflow()))
