"""A turn that the Session actor has opened while the Runner still waits for the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors import TurnCancelledError
from actors.messages import protocol as p
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.testing import ScriptedModel
from runtime.engine.local import LocalLink
from tests.support.runner_fixture import RunnerFixture
from tests.support.session_fixture import KEY

Build = Callable[..., RunnerFixture]


class LateReplies(SessionRef):
    """A client of the Session actor that gets the reply to OpenTurn only when it may."""

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.is_open = asyncio.Event()
        self.may_hear = asyncio.Event()

    async def open_turn(self, message: p.OpenTurn) -> p.OpenTurnReply:
        opened = await super().open_turn(message)
        self.is_open.set()
        await self.may_hear.wait()
        return opened


def late(fixture: RunnerFixture) -> LateReplies:
    """Give the fixture a Runner that gets replies late."""
    session = LateReplies(fixture.session._link)
    fixture.runner = RunnerRef(LocalLink(RunnerActor(RunnerEnvironment(session, fixture.directory, fixture.artifacts))))
    fixture.directory.environment = replace(fixture.directory.environment, runner=fixture.runner)
    return session


async def test_whoever_joins_it_then_does_not_have_it_run_twice(build: Build) -> None:
    model = ScriptedModel(["once", "twice"])
    fixture = build(LlmAgent(name="root", model=model))
    session = late(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await session.is_open.wait()
    await fixture.runner.recover_turn(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    session.may_hear.set()
    await starting
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["once"]
    assert len(model.requests) == 1
    assert (await fixture.runner.statistics()).counts["turns"] == 1


async def test_whoever_cancels_it_then_waits_until_it_can_be_cancelled(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=ScriptedModel(["said"])))
    session = late(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await session.is_open.wait()
    cancelling = asyncio.create_task(fixture.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-1")))
    # The Session actor has been asked, and does not have it in its queue.
    await fixture.session.statistics()
    assert not cancelling.done()
    session.may_hear.set()
    await starting
    await cancelling
    assert (await fixture.runner.statistics()).counts["running"] == 0
    session.is_open.clear()
    assert await fixture.start(turn="e-2") == "e-2"


async def test_one_that_waits_in_line_is_taken_out_of_it(build: Build) -> None:
    model = ScriptedModel(["first", "third"])
    fixture = build(LlmAgent(name="root", model=model))
    session = late(fixture)
    first = asyncio.create_task(fixture.start(turn="e-1"))
    await session.is_open.wait()
    second = asyncio.create_task(fixture.start(turn="e-2"))
    third = asyncio.create_task(fixture.start(turn="e-3"))
    await fixture.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError):
        await second
    session.may_hear.set()
    await asyncio.gather(first, third)
    assert [event.text for event in (await fixture.end("e-3"))[0]] == ["third"]
    assert [event.text for event in await fixture.log() if event.author == "user"] == ["hi", "hi"]
