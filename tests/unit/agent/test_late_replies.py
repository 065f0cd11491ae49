"""An agent that has not heard what has become of a turn when the next one begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, RunConfig
from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.testing import PatternModel
from tests.support.fixtures.runner_fixture import RunnerFixture

Build = Callable[..., RunnerFixture]


def own_session(house: RunnerFixture) -> SessionRef:
    """A client of the Session actor that only agents have."""
    session = SessionRef(house._session_link)
    house.directory.environment = replace(house.directory.environment, session=session)
    return session


async def test_a_turn_that_begins_before_the_reply_to_the_last_event_reads_no_more_than_that(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = build(LlmAgent(name="root", model=PatternModel([], default="hello")))
    session, may_reply = own_session(house), asyncio.Event()
    ask, asked = session.ask, list[int]()

    async def ask_and_reply_late(message: p.Request[Any]) -> Any:
        if isinstance(message, p.Fetch):
            asked.append(message.after_seq)
        reply = await ask(message)
        if isinstance(message, p.Append):
            await may_reply.wait()
        return reply

    monkeypatch.setattr(session, "ask", ask_and_reply_late)
    await house.start(subscriber="first")
    events, _ = await house.end("first")
    assert [event.text for event in events] == ["hello"]
    second = asyncio.create_task(house.run("and now?"))
    for _ in range(20):
        await asyncio.sleep(0)
    may_reply.set()
    events, outcome = await second
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["hello"]
    assert set(asked) <= {1}


async def test_a_turn_that_interrupts_another_one_does_not_read_the_log_again(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def wait_for_ever(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        if llm_request.contents[-1].text == "think":
            asked.set()
            await asyncio.Event().wait()

    model = PatternModel([], default="hello")
    house = build(LlmAgent(name="root", model=model, before_model_callback=wait_for_ever))
    session = own_session(house)
    ask = session.ask

    async def ask_without_reading(message: p.Request[Any]) -> Any:
        assert not isinstance(message, p.Fetch), f"all is known, but {message} was asked for"
        return await ask(message)

    monkeypatch.setattr(session, "ask", ask_without_reading)
    await house.run()
    await house.start("think", subscriber="first")
    await asked.wait()
    events, _ = await house.run("and now?", config=RunConfig(on_concurrent_turn="interrupt"))
    assert [event.text for event in events] == ["hello"]
