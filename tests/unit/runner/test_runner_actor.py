"""The Runner: it starts turns, routes transfers, counts, and stops what is to be stopped (semantics.md sections 1 to 3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from actors import (
    Content,
    CustomAgent,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    RunConfig,
)
from actors.errors import FencedError, InvalidMessageError, SessionBusyError, TurnCancelledError, UnknownFunctionCallError
from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.testing import PatternModel, ScriptedModel
from runtime.stores.artifacts import FsspecArtifactStore
from tests.support import inside
from tests.support.fixtures.log_events import call, image, resp, said
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import KEY, settled

Build = Callable[..., RunnerFixture]


class Silent:
    """A model that never answers, and tells when it is asked and when it is given up."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.stopped = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        yield LlmResponse()


def texts(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.author, event.text) for event in events if event.text]


def family(model: Any, **more: Any) -> LlmAgent:
    return LlmAgent(name="root", model=model, sub_agents=[LlmAgent(name="a"), LlmAgent(name="b", **more)])


async def test_a_turn_goes_to_the_root_and_stays_with_whom_it_was_transferred_to(build: Build) -> None:
    fixture = build(family(ScriptedModel([{"transfer": "a"}, "I am a", "still a"])))
    events, outcome = await fixture.run()
    assert texts(events) == [("a", "I am a")]
    assert [event.actions.transfer_to_agent for event in events] == [None, "a", None]
    assert isinstance(outcome, p.Finished)
    assert texts((await fixture.run())[0]) == [("a", "still a")]
    assert [event.seq for event in await fixture.log()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (Content(), "no parts"),
        (Content(parts=[said("x"), call("c")]), "function call"),
        (Content(parts=[resp(None)]), "without the id"),
    ],
)
async def test_a_message_that_cannot_be_is_refused_before_anything_is_stored(build: Build, content: Content, words: str) -> None:
    fixture = build(family(ScriptedModel([])))
    with pytest.raises(InvalidMessageError, match=words):
        await fixture.run(content)
    assert await fixture.log() == []


async def test_an_answer_to_nothing_is_refused_before_anything_is_stored(build: Build) -> None:
    fixture = build(family(ScriptedModel(["ok"])))
    await fixture.run()
    with pytest.raises(UnknownFunctionCallError):
        await fixture.run(Content(parts=[resp("zzz")]))
    assert len(await fixture.log()) == 2


async def test_more_transfers_than_allowed_fail_the_turn_in_the_name_of_who_asked(build: Build) -> None:
    fixture = build(family(PatternModel([("", {"transfer": "a"}), ("tool:", {"transfer": "b"})])))
    ping = ScriptedModel([{"transfer": "a"}, {"transfer": "b"}, {"transfer": "a"}, "fine"])
    fixture = build(family(ping))
    events, outcome = await fixture.run(config=RunConfig(max_transfers=2))
    assert isinstance(outcome, p.Failed)
    assert (outcome.error_code, events[-1].author, events[-1].error_code) == (
        "TransferLimitExceededError",
        "b",
        "TransferLimitExceededError",
    )
    assert outcome.error_args == ["b", "a", 2]
    assert texts((await fixture.run())[0]) == [("b", "fine")]


async def test_more_model_calls_than_allowed_are_refused_for_all_agents_together(build: Build) -> None:
    model = ScriptedModel([{"transfer": "a"}, {"call": "nothing"}, "never", "next"])
    fixture = build(family(model))
    events, outcome = await fixture.run(config=RunConfig(max_llm_calls=2))
    assert isinstance(outcome, p.Failed)
    assert (outcome.error_code, events[-1].author) == ("LlmCallsLimitExceededError", "a")
    assert outcome.error_args == ["a", 2]
    assert model.remaining == 2
    assert isinstance((await fixture.run(config=RunConfig(max_llm_calls=1)))[1], p.Finished)


async def test_a_transfer_that_a_tool_sets_to_nobody_fails_the_turn_with_its_event(build: Build) -> None:
    class Router(CustomAgent):
        async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
            yield Event(content=Content.of_text("over", "model"), actions=EventActions(transfer_to_agent="nobdy"))

    fixture = build(Router(name="router", sub_agents=[LlmAgent(name="nobody", model=ScriptedModel([]))]))
    events, outcome = await fixture.run()
    assert isinstance(outcome, p.Failed)
    assert [event.error_code for event in events] == [None, "TransferTargetError"]
    assert "Did you mean 'nobody'?" in str(events[-1].error_message)


async def test_cancelling_a_turn_stops_its_agent_and_the_next_turn_works(build: Build) -> None:
    model = Silent()
    fixture = build(LlmAgent(name="root", model=model, sub_agents=[]))
    turn = await fixture.start()
    await model.asked.wait()
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id=turn))
    assert model.stopped.is_set()
    events, outcome = await fixture.end(turn)
    assert (events, type(outcome)) == ([], p.Cancelled)
    model.asked.clear()
    again = await fixture.start()
    await model.asked.wait()
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id=again))


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


async def test_a_turn_beyond_its_time_is_cancelled_and_says_so(build: Build) -> None:
    model = Silent()
    fixture = build(LlmAgent(name="root", model=model))
    _, outcome = await fixture.run(config=RunConfig(timeout=0.05))
    assert isinstance(outcome, p.Cancelled)
    assert outcome.timeout_s == 0.05
    assert model.stopped.is_set()


async def test_a_turn_in_line_can_be_cancelled_and_one_that_has_ended_is_left_alone(build: Build) -> None:
    model = Silent()
    fixture = build(LlmAgent(name="root", model=model))
    first = await fixture.start()
    waiting = asyncio.create_task(fixture.start(turn="e-9"))
    await settled()
    for _ in range(2):
        await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-9"))
    with pytest.raises(TurnCancelledError):
        await waiting
    for _ in range(2):
        await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id=first))
    assert isinstance((await fixture.end(first))[1], p.Cancelled)


async def test_interrupting_cancels_the_running_turn_first(build: Build) -> None:
    model = Silent()
    fixture = build(LlmAgent(name="root", model=model))
    first = await fixture.start()
    await model.asked.wait()
    second = await fixture.start(config=RunConfig(on_concurrent_turn="interrupt"))
    assert isinstance((await fixture.end(first))[1], p.Cancelled)
    with pytest.raises(SessionBusyError, match=second):
        await fixture.start(config=RunConfig(on_concurrent_turn="reject"))
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id=second))


async def test_the_same_id_again_joins_the_turn_and_starts_no_second_one(build: Build) -> None:
    model = ScriptedModel(["once"])
    fixture = build(LlmAgent(name="root", model=model))
    first = await fixture.run(turn="e-7", repeatable=True)
    assert await fixture.run(turn="e-7", repeatable=True) == first
    assert len(await fixture.log()) == 2


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
    fixture = build(LlmAgent(name="root", model=Silent()))
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


class FullDisk(FsspecArtifactStore):
    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        raise OSError("disk full")


async def test_when_a_blob_cannot_be_saved_the_turn_does_not_start(
    build: Build, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel(["ok"])), FullDisk(str(tmp_path_factory.mktemp("full"))))
    with pytest.raises(Exception, match="disk full"):
        await fixture.run(Content(parts=[image()]), config=RunConfig(save_input_blobs_as_artifacts=True))
    assert await fixture.log() == []
    assert texts((await fixture.run())[0]) == [("root", "ok")]


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


async def test_the_callers_content_is_never_changed(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel(["ok"])))
    content = Content(role="model", parts=[said("hi")])
    await fixture.run(content)
    assert content == Content(role="model", parts=[said("hi")])
    assert (await fixture.log())[0].content == Content(role="user", parts=[said("hi")])
