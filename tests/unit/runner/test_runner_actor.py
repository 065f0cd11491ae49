"""A Runner: what becomes of a message before its turn runs, which agent gets it, and what is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import (
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    Plugin,
    RunConfig,
)
from actors.actor import Handlers
from actors.errors import FencedError, ModelConfigurationError
from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.event import encode_event
from actors.messages.session import SessionKey
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.runner.service import RunnerService
from actors.testing import ScriptedModel
from tests.support import inside
from tests.support.fixtures.log_events import image, said
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import KEY, settled

Build = Callable[..., RunnerFixture]


def texts(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.author, event.text) for event in events if event.text]


async def test_a_turn_cancelled_before_its_first_step_is_closed_and_the_next_turn_works(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch_and_cancel(launch: Callable[..., None], tasks: Any, turn: Any) -> None:
        launch(tasks, turn)
        turn.task.cancel()

    fixture = build(LlmAgent(name="root", model=ScriptedModel(["hello"])))
    with monkeypatch.context() as patched:
        inside.around(patched, "launch a turn", launch_and_cancel)
        events, outcome = await fixture.run()
    assert (events, type(outcome)) == ([], p.Cancelled)
    events, _ = await fixture.run()
    assert [event.text for event in events] == ["hello"]


async def test_blobs_are_saved_by_their_place_and_replaced_by_a_text(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel(["ok", "ok"])))
    blobs = Content(parts=[said("see"), image(), Part(text="and"), image()])
    await fixture.run(blobs, turn="e-5", config=RunConfig(save_input_blobs_as_artifacts=True))
    names = ["artifact_e-5_1", "artifact_e-5_3"]
    assert fixture.artifacts.keys(KEY) == names
    texts = [part.text for part in (await fixture.log())[0].content.parts]  # type: ignore[union-attr]
    assert texts == ["see", *(f"Uploaded file: {name}. It is saved into artifacts" for name in names[:1]), "and", *texts[3:]]
    await fixture.run(blobs)
    assert (await fixture.log())[2].content == Content(role="user", parts=blobs.parts)
    assert blobs.role is None


async def test_a_turn_that_waits_in_line_is_joined_without_saving_its_blobs_again(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=Gated([])))
    first = await fixture.start()
    config = RunConfig(save_input_blobs_as_artifacts=True)
    again = [
        asyncio.create_task(fixture.start(Content(parts=[image()]), turn="e-5", repeatable=True, config=config, subscriber=each))
        for each in ("one", "two")
    ]
    await asyncio.wait(again, return_when=asyncio.FIRST_COMPLETED)
    assert await fixture.start(Content(parts=[image()]), turn="e-5", repeatable=True, config=config, subscriber="three") == "e-5"
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id=first))
    assert await asyncio.gather(*again) == ["e-5", "e-5"]
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-5"))
    for subscriber in ("one", "two", "three"):
        assert isinstance((await fixture.end(subscriber))[1], p.Cancelled)
    assert fixture.artifacts.versions(KEY, "artifact_e-5_0") == [0]
    assert len(await fixture.log()) == 2


async def test_when_an_agents_actor_cannot_be_made_the_turn_ends_and_its_driver_is_told(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel(["ok"])))
    links = fixture.directory.link

    async def no_room(agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        fixture.directory.link = links  # type: ignore[method-assign]
        raise RuntimeError("no room")

    fixture.directory.link = no_room  # type: ignore[method-assign]
    _, outcome = await fixture.run()
    assert isinstance(outcome, p.Failed)
    assert "no room" in outcome.error_message
    assert texts((await fixture.run())[0]) == [("root", "ok")]


async def test_who_holds_no_turn_may_ask_for_nothing(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel([])))
    turn = p.TurnRef(KEY, "e-1", 1)
    with pytest.raises(FencedError):
        await fixture.runner.ask(p.TakeLlmCall(turn=turn, agent="root"))
    with pytest.raises(FencedError):
        await fixture.runner.ask(p.RunChild(turn=turn, parent="root", child="a"))


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


class SecondStop(RunnerService):
    def handlers(self) -> Handlers:
        return {p.Stop: self.stop}

    async def stop(self, _: p.Stop) -> p.Ack:
        return p.Ack()


async def test_a_message_with_two_handlers_is_found_when_the_runner_starts(tmp_path: Path) -> None:
    fixture = RunnerFixture(CustomAgent(name="root"), tmp_path)
    environment = RunnerEnvironment(fixture.session, fixture.directory, fixture.artifacts)
    with pytest.raises(TypeError, match="Stop has two handlers: SecondStop has the second one"):
        RunnerActor(environment, services=lambda _: [SecondStop()])
