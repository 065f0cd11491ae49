"""When the agent of a turn is selected: when the turn is open, and before that only if an obstacle or a plugin asks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import CallbackContext, Content, Event, LlmAgent, LlmRequest, LlmResponse, Plugin
from actors.errors import ModelConfigurationError
from actors.messages import protocol as p
from actors.messages.event import encode_event
from actors.testing import ScriptedModel
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import KEY, settled

Build = Callable[..., RunnerFixture]


class Noting(Plugin):
    """Notes for which agent it is shown a message."""

    def __init__(self) -> None:
        super().__init__()
        self.agents: list[str] = []

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self.agents.append(context.agent_name)


class Gated(ScriptedModel):
    """Says nothing before it may."""

    def __init__(self, script: Sequence[Any]) -> None:
        super().__init__(script)
        self.may = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await self.may.wait()
        async for response in super().generate(request, stream=stream):
            yield response


def family(*said: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(said), sub_agents=[LlmAgent(name="a")])


async def test_an_author_that_is_not_in_the_tree_is_named_in_a_warning(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    fixture = build(family({"transfer": "a"}, "I am a", "still a"))
    await fixture.run()
    gone = Event(id="x", invocation_id="e-0", author="gone", content=Content.of_text("bye", "model"))
    await fixture.session.append_event(p.AppendEventRequest(key=KEY, event=encode_event(gone)))
    with caplog.at_level(logging.WARNING):
        events, _ = await fixture.run()
    assert [event.author for event in events] == ["a"]
    # A busy machine may be told of as well.
    assert [record.getMessage() for record in caplog.records if "author" in record.getMessage()] == [
        "author 'gone' of the log is not in the agent tree: looking at older events"
    ]


async def test_a_message_to_an_agent_that_cannot_run_here_is_refused_before_anything_is_stored(build: Build) -> None:
    fixture = build(family({"transfer": "a"}, "I am a", "hi from a"))
    fixture.directory.obstacles = {"root": ("gemini", "no key")}
    with pytest.raises(ModelConfigurationError, match="no key"):
        await fixture.run()
    assert await fixture.log() == []
    fixture.directory.obstacles = {"a": ("gemini", "no key")}
    await fixture.run()
    stored = len(await fixture.log())
    with pytest.raises(ModelConfigurationError, match="no key"):
        await fixture.run()
    assert len(await fixture.log()) == stored
    fixture.directory.obstacles = {"root": ("gemini", "no key")}
    assert [event.author for event in (await fixture.run())[0]] == ["a"]


async def test_plugins_see_who_would_get_a_message_and_who_gets_it_is_said_when_its_turn_is_open(tmp_path: Path) -> None:
    noting, model = Noting(), Gated([{"transfer": "a"}, "I am a", "for a"])
    fixture = RunnerFixture(LlmAgent(name="root", model=model, sub_agents=[LlmAgent(name="a")]), tmp_path, plugins=[noting])
    first = await fixture.start("one")
    second = asyncio.create_task(fixture.start("two"))
    await settled()
    assert noting.agents == ["root", "root"]
    model.may.set()
    await fixture.end(first)
    events, _ = await fixture.end(await second)
    assert [(event.author, event.text) for event in events] == [("a", "for a")]
    await fixture.close()
