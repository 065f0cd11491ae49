"""Values for the fuzz test, of every kind in every field, and an agent that says and does what a test has planned."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import strategies as st

from actors import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    ToolContext,
    tool,
)
from actors.messages.event import Event, EventActions
from tests.support.agents import hostile_code as hostile

junk = st.sampled_from(
    [
        None,
        True,
        -1,
        2**70,
        1.5,
        math.nan,
        math.inf,
        "",
        " ",
        "\x00",
        "\ud800",
        "x" * 5_000,
        b"\xff",
        (),
        [],
        {},
        [[]],
        {1: 2},
        {"": None},
        {"a": {1, 2}},
        {"a": math.nan},
        hostile.nested(150),
        hostile.nested(5_000),
        hostile.self_containing_list(),
        object(),
        hostile.ExitingModelDump(),
        print,
    ]
)
"""Values that fit nowhere, or only elsewhere."""

words = st.text(st.characters(exclude_categories=()), max_size=12)
"""Texts of any characters, lone surrogates among them."""

json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**65) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)

ids = st.sampled_from(["ada", "bob", "s1", "s2", "a/b:c", "../x", "e-1", "'; --"]) | words | junk
call_ids = st.sampled_from(["c1", "c2", "c3"]) | words | junk
names = st.sampled_from(["echo", "later", "consent", "transfer_to_agent", "nobody", ""]) | words | junk
args = st.sampled_from([{}, {"value": 1}, {"agent_name": "other"}, {"agent_name": "root"}]) | st.dictionaries(words, json) | junk
objects = st.dictionaries(words, json, max_size=3) | junk

calls = st.builds(FunctionCall, id=call_ids, name=names, args=args)
responses = st.builds(FunctionResponse, id=call_ids, name=names, response=objects | st.just({"confirmed": True}))
blobs = st.builds(Blob, data=st.binary(max_size=40) | st.just(b"x" * 2_000) | junk, mime_type=words | junk)
files = st.builds(FileData, file_uri=words | junk)

parts = st.one_of(
    st.builds(Part, text=words),
    st.builds(Part, function_call=calls),
    st.builds(Part, function_response=responses),
    st.builds(Part, inline_data=blobs),
    st.builds(Part, text=words | junk, thought=st.booleans() | junk, thought_signature=st.binary(max_size=4) | junk),
    st.builds(Part, function_call=calls | junk, function_response=responses | junk, text=words),
    st.builds(Part, file_data=files | junk, part_metadata=objects, tool_call=objects, media_resolution=objects),
)


def lists_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly a list of them; sometimes with something else in it, seldom no list at all."""
    some = st.lists(items, min_size=1, max_size=4)
    return st.one_of(some, some, st.lists(items, max_size=1), st.lists(items | junk, max_size=3), junk)


contents = st.builds(Content, role=st.sampled_from(["user", "model", "system", None]) | junk, parts=lists_of(parts))

answers = st.one_of(
    st.builds(LlmResponse, content=contents),
    st.builds(LlmResponse, content=contents, partial=st.booleans()),
    st.builds(
        LlmResponse,
        content=contents | junk,
        partial=st.booleans() | junk,
        finish_reason=words | junk,
        error_code=words | junk,
        usage=junk,
        custom_metadata=objects,
    ),
    junk,
)

failures = st.sampled_from(
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(),
        hostile.UnprintableError(),
        RecursionError(),
        Exception("\ud800"),
    ]
)

messages = words | contents | junk

actions = st.builds(
    EventActions,
    state_delta=objects | st.dictionaries(st.sampled_from(["k", "user:k", "app:k", "temp:k"]), json),
    artifact_delta=st.dictionaries(words, st.integers(0, 3), max_size=1) | junk,
    transfer_to_agent=st.none() | names,
    escalate=st.none() | junk,
    agent_state=st.none() | objects,
)

events = st.builds(
    Event,
    id=st.just("") | ids,
    invocation_id=st.just("") | ids,
    author=st.sampled_from(["root", "user", "other", "gone"]) | ids,
    timestamp=st.just(0.0) | junk,
    branch=st.none() | words | junk,
    content=contents | junk,
    partial=st.none() | junk,
    long_running_tool_ids=st.just(()) | lists_of(call_ids),
    actions=st.builds(EventActions) | actions | junk,
)


class PlannedModel:
    """A model that yields, or raises, what is in `plan`; the next time it says "done"."""

    model = "puppet"

    def __init__(self) -> None:
        self.plan: list[Any] = []
        self.result: Any = None
        self.delta: Any = {}

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        plan, self.plan = self.plan, []
        for each in plan or [hostile.answer("done")]:
            if isinstance(each, BaseException):
                raise each
            yield each


def planned_agent(puppet: PlannedModel) -> LlmAgent:
    """An agent with tools of every kind, and a sub-agent to transfer to."""

    @tool
    async def echo(context: ToolContext, value: Any = None) -> Any:
        """Return or raise `result`, and write `delta` to the state."""
        for key, changed in puppet.delta.items():
            context.state[key] = changed
        if isinstance(puppet.result, BaseException):
            raise puppet.result
        return puppet.result

    @tool(long_running=True)
    def later() -> None:
        """Have it answered in a later turn."""

    @tool(require_confirmation=True)
    def consent() -> Any:
        """Do it when the user has said yes."""
        return puppet.result

    other = LlmAgent(name="other", model=puppet, tools=[echo])
    return LlmAgent(name="root", model=puppet, tools=[echo, later, consent], sub_agents=[other], output_key="said")
