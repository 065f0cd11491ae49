"""Events that travel along with messages: agents that take turns fetch nothing, and ask their models the same as if they did."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import CallbackContext, LlmAgent, LlmRequest, LlmResponse, ToolContext
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.rules import handover_events
from actors.testing import PatternModel
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.machine.folders import quick_folder
from tests.support.tries import tries

BILL, SHIP, COUNT, BACK, NOTE = "bill", "ship", "count", "back", "note"

messages = st.lists(st.lists(st.sampled_from([BILL, SHIP, COUNT, BACK, NOTE]), max_size=3).map(" ".join), max_size=5)
"""What the user says, one text for each turn: the words decide what the agents do with it."""


class Overheard(PatternModel):
    """Writes down what it is asked."""

    def __init__(self, asked: list[LlmRequest], patterns: Sequence[tuple[str, Any]], default: str) -> None:
        super().__init__(patterns, default=default)
        self._asked = asked

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self._asked.append(request)
        async for response in super().generate(request, stream=stream):
            yield response


def count(tool_context: ToolContext) -> str:
    """Count in the session's state, so that what an agent knows of that is out of date."""
    tool_context.state["counted"] = tool_context.state.get("counted", 0) + 1
    return "counted"


def note(callback_context: CallbackContext) -> None:
    """Change the state as well, in an event of its own, if the user asks for that."""
    if NOTE in (callback_context.user_content.text if callback_context.user_content is not None else ""):
        callback_context.state["noted"] = callback_context.state.get("noted", 0) + 1


def tree(asked: list[LlmRequest]) -> LlmAgent:
    def agent(name: str, default: str, *patterns: tuple[str, Any], **fields: Any) -> LlmAgent:
        prompt = f"You are {name}; {{counted?}} counted, {{noted?}} noted."
        return LlmAgent(
            name=name,
            instruction=prompt,
            model=Overheard(asked, [("tool:", f"{name} has done it"), *patterns], default),
            tools=[count],
            **fields,
        )

    counts = (COUNT, {"call": "count"})
    shipping = agent("shipping", "shipped", counts)
    billing = agent("billing", "paid", (SHIP, {"transfer": "shipping"}), counts, before_agent_callback=note)
    return agent(
        "root", "hello", (BILL, {"transfer": "billing"}), (SHIP, {"transfer": "shipping"}), counts, sub_agents=[billing, shipping]
    )


async def conversation(folder: Path, texts: Sequence[str]) -> tuple[list[LlmRequest], list[int]]:
    """What the models are asked, and how often agents have fetched in each turn."""
    asked: list[LlmRequest] = []
    fixture = RunnerFixture(tree(asked), folder)
    handlers = fixture._session_link._actor._handlers
    fetch, fetches, by_turn = handlers[p.Fetch], [], []

    async def counted(message: p.Fetch) -> p.Message:
        fetches.append(message)
        return await fetch(message)

    with mock.patch.dict(handlers, {p.Fetch: counted}):
        for text in texts:
            fetches.clear()
            _, outcome = await fixture.run(text or "hi")
            assert isinstance(outcome, p.Finished)
            by_turn.append(len(fetches))
    await fixture.close()
    return asked, by_turn


@settings(max_examples=tries(60))
@given(messages)
@example([f"{NOTE} {BILL} {SHIP}"])
@example([COUNT, f"{NOTE} {BILL} {COUNT}", f"{SHIP} {COUNT}", BILL])
def test_models_are_asked_the_same_as_when_nothing_travels_along(texts: list[str]) -> None:
    def asked() -> list[str]:
        with quick_folder() as folder:
            requests, _ = asyncio.run(conversation(Path(folder), texts))
        told = (encode([request.system_instruction, request.contents]).decode("latin-1") for request in requests)
        # The ids of calls are chance.
        return [re.sub(r"call-[0-9a-f-]+", "call", each) for each in told]

    with_events = asked()
    with mock.patch.object(handover_events, "MAX_EVENTS", 0):
        assert asked() == with_events


@pytest.mark.parametrize(
    ("texts", "fetches"),
    [
        pytest.param(["hi", "hi", "hi"], [0, 0, 0], id="one agent"),
        pytest.param([f"{BILL} {SHIP}", "hi", "hi"], [0, 0, 0], id="several agents in a new session"),
        # An agent that has never spoken has missed everything, which would have to travel along with each turn.
        pytest.param(["hi", BILL, SHIP, "hi"], [0, 1, 1, 0], id="agents that come later"),
        # Those who get the events along cannot know how they change the state.
        pytest.param([f"{NOTE} {BILL} {SHIP}", "hi"], [1, 0], id="a state that changes meanwhile"),
    ],
)
async def test_agents_that_take_turns_fetch_nothing(tmp_path: Path, texts: list[str], fetches: list[int]) -> None:
    assert (await conversation(tmp_path, texts))[1] == fetches
