"""A message to an agent that is at work is answered once, whichever actor is lost at whichever message."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import BaseAgent, Content, Event, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, SequentialAgent, tool
from actors.errors import TurnError
from actors.messages.content import FunctionCall
from actors.rules.prompt.compiler import NO_ANSWER
from tests.acceptance.sessions.test_steering import STEER, Listener
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import stored


class Echo:
    """Calls the tool `wait` once, and then says which messages of the user it was shown.

    Attributes:
        is_at_work: a call is under way.
        may_end: it may end.
    """

    def __init__(self, *, reads: bool) -> None:
        self.is_at_work, self.may_end = threading.Event(), threading.Event()
        self._reads = reads

    async def wait(self) -> str:
        """Wait for the test."""
        self.is_at_work.set()
        await asyncio.to_thread(self.may_end.wait, 20)
        return "over"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        given = any(content.function_responses() for content in request.contents)
        if self._reads and not any(any(content.function_responses()) for content in request.contents):
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="wait"))]))
            return
        if not self._reads:
            await self.wait()
        assert given or not self._reads
        said = [content.text for content in request.contents if content.role == "user" and content.text]
        yield LlmResponse(content=Content.of_text(" ".join(each for each in said if each in ("begin", "more")), role="model"))


def played(losses: Sequence[Loss], *, reads: bool) -> LossyEngine:
    """A turn that is given a message while its agent works; with `reads` the agent calls its model once more afterwards."""
    model = Echo(reads=reads)
    worker = LlmAgent(name="worker", model=model, tools=[model.wait] if reads else [])
    with quick_folder() as folder:
        rt, engine = lossy_runtime(SequentialAgent(name="root", sub_agents=[worker]), Path(folder), losses)
        engine.watches = True
        with rt:
            first = rt.run(user_id="ada", session_id="s1", message="begin")
            assert model.is_at_work.wait(20)
            second = rt.run(user_id="ada", session_id="s1", message="more", run_config=STEER)
            joined = second.steered
            model.may_end.set()
            results = [first.result(), second.result()]
            check([turn.text for turn in results], log := stored(rt), was_read=reads and joined is not None)
            assert not any(event.error_code for event in log)
            assert rt.schedules.list() == []
    return engine


def check(answers: Sequence[str], log: Sequence[Any], *, was_read: bool) -> None:
    """The message is in the log once, and an answer that was given after it has it."""
    said = [event.text for event in log if event.author == "user"]
    assert Counter(said) == {"begin": 1, "more": 1}
    assert "more" in answers[1]
    place = next(place for place, event in enumerate(log) if event.text == "more")
    assert any("more" in event.text for event in log[place + 1 :])
    if was_read:
        assert answers == ["begin more", "begin more"]


@pytest.mark.parametrize("reads", [True, False], ids=["read", "not_read"])
def test_without_losses_it_is_read_by_the_turn_or_answered_by_its_own(reads: bool) -> None:
    assert played([], reads=reads).lost == []


@pytest.mark.sampled(7, full=3)
@pytest.mark.parametrize("reads", [True, False], ids=["read", "not_read"])
@pytest.mark.parametrize("who", get_args(Victim))
def test_it_is_answered_once_whichever_actor_is_lost_at_whichever_message(who: Victim, reads: bool) -> None:
    for at in range(played([], reads=reads).messages):
        for before in (True, False):
            played([Loss(at, who, before)], reads=reads)


class Tools:
    """Calls the tools `ask` and `wait`, one after the other, or `wait` again and again, and then says its name.

    Attributes:
        work: says when the tool `wait` runs, and when it may end.
    """

    def __init__(self, name: str, *tools: str) -> None:
        self.work = Echo(reads=True)
        self._name = name
        self._tools = tools

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        given = sum(result.response != NO_ANSWER for content in request.contents for result in content.function_responses())
        if given < len(self._tools):
            call = FunctionCall(name=self._tools[given])
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))
        else:
            yield LlmResponse(content=Content.of_text(f"{self._name} done", role="model"))


@tool(long_running=True)
def ask() -> None:
    """Ask."""


def steered(
    root: BaseAgent, work: Echo, losses: Sequence[Loss], config: RunConfig | None = None
) -> tuple[LossyEngine, list[Event]]:
    """The log of a turn that is given a message after it was answered, if it asks, and how many messages were counted."""
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        engine.watches = True
        with rt:
            turn = rt.run(user_id="ada", session_id="s1", message="begin", run_config=config)
            if config is None:
                turn.result()
                [call] = turn.pending
                turn = rt.answer(call, {"allowed": True})
            assert work.is_at_work.wait(20)
            assert rt.run(user_id="ada", session_id="s1", message="more", run_config=STEER).steered is not None
            work.may_end.set()
            with suppress(TurnError):
                turn.result()
            return engine, [event for event in stored(rt) if event.invocation_id == turn.invocation_id]


def test_a_message_that_was_read_gives_the_turn_no_new_model_calls_after_a_loss() -> None:
    def played_with(*losses: Loss) -> LossyEngine:
        model = Tools("root", *["wait"] * 5)
        agent = LlmAgent(name="root", model=model, tools=[model.work.wait])
        engine, log = steered(agent, model.work, losses, RunConfig(max_llm_calls=2))
        assert sum(any(event.function_calls()) for event in log) == 2
        assert log[-1].error_code == "LlmCallsLimitExceededError"
        return engine

    played_with(Loss(played_with().messages - 3, "runner", True))


def test_a_workflow_that_was_answered_and_given_a_message_goes_on_after_a_loss() -> None:
    def played_with(*losses: Loss) -> LossyEngine:
        model = Tools("one", "ask", "wait")
        one = LlmAgent(name="one", model=model, tools=[ask, model.work.wait])
        two = LlmAgent(name="two", model=Tools("two"))
        engine, log = steered(SequentialAgent(name="root", sub_agents=[one, two]), model.work, losses)
        assert [event.text for event in log if event.text] == ["begin", "more", "one done", "two done"]
        return engine

    played_with(Loss(played_with().messages - 5, "runner", True))


def heard(*losses: Loss) -> LossyEngine:
    """A custom agent that is lost gets again what it has read, between the same events."""
    with quick_folder() as folder:
        rt, engine = lossy_runtime(Listener(name="root"), Path(folder), losses)
        engine.watches = True
        with rt:
            turn = rt.run(user_id="ada", session_id="s1", message="begin")
            events = iter(turn)
            next(events)
            for text in ("one", "two"):
                assert rt.run(user_id="ada", session_id="s1", message=text, run_config=STEER).steered is not None
                assert next(events).text == text
            assert list(events) == []
            assert [event.text for event in stored(rt)] == ["begin", "0", "one", "one", "two", "two"]
    return engine


def test_code_that_begins_again_gets_the_messages_again_that_it_has_read() -> None:
    for at in range(heard().messages):
        heard(Loss(at, "agents", False))
