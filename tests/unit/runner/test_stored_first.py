"""A turn begins when its message is on disk, and not at all when that cannot be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors import ActorRestartsError, StoreError
from actors.messages import protocol as p
from actors.refs.session import SessionRef
from actors.testing import ScriptedModel
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import HeldCommits, settled

Build = Callable[..., RunnerFixture]


async def test_a_model_is_asked_when_the_message_is_on_disk(build: Build) -> None:
    model = ScriptedModel(["one", "two"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start(turn="held"))
    while not held.is_reached.is_set():
        await settled()
    repeated = asyncio.create_task(fixture.start(turn="held", repeatable=True, subscriber="other"))
    await settled()
    assert not starting.done()
    assert not repeated.done()
    assert len(model.requests) == 1
    held.let_go()
    assert [await starting, await repeated] == ["held", "held"]
    assert isinstance((await fixture.end("held"))[1], p.Finished)
    assert [event.text for event in await fixture.log()] == ["hi", "one", "hi", "two"]


async def test_nothing_is_left_of_a_turn_whose_message_cannot_be_stored(build: Build) -> None:
    model = ScriptedModel(["one", "kept"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    fixture.store.failures = 10
    with pytest.raises(StoreError, match="disk is full"):
        await fixture.start("lost", turn="held")
    fixture.store.failures = 0
    events, outcome = await fixture.run("again")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["kept"]
    assert [event.text for event in await fixture.log()] == ["hi", "one", "again", "kept"]
    assert [content.text for content in model.requests[1].contents] == ["hi", "one", "again"]


class LostWhileStoring(SessionRef):
    """A client of a Session actor that is lost before it stores a message, and started again."""

    asked: list[p.OpenTurn]

    async def open_turn(self, message: p.OpenTurn, *args: Any) -> p.OpenTurnReply:
        self.asked.append(message)
        if len(self.asked) == 1:
            raise ActorRestartsError("session", "it was lost")
        return await super().open_turn(message, *args)


async def test_a_message_that_was_lost_with_the_session_actor_is_sent_again(build: Build) -> None:
    model = ScriptedModel(["kept"])
    fixture = build(LlmAgent(name="root", model=model))
    session = LostWhileStoring(fixture._session_link)
    session.asked = []
    fixture.use(session)
    await fixture.start(turn="e-1")
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["kept"]
    assert [event.text for event in await fixture.log()] == ["hi", "kept"]
    assert [each.repeatable for each in session.asked] == [False, True]
