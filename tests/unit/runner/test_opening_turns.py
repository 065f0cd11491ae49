"""A turn that the Session actor has opened, and of which the Runner has not heard yet."""

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
from actors.testing import ScriptedModel
from runtime.engine.local import LocalLink
from tests.support.runner_fixture import House
from tests.support.session_fixture import KEY

Build = Callable[..., House]


class LateReplies(SessionRef):
    """A client of the Session actor that hears only when it may that a turn is open."""

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.is_open = asyncio.Event()
        self.may_hear = asyncio.Event()

    async def open_turn(self, message: p.OpenTurn) -> p.OpenTurnReply:
        opened = await super().open_turn(message)
        self.is_open.set()
        await self.may_hear.wait()
        return opened


def late(house: House) -> LateReplies:
    """Give the house a Runner that hears late."""
    session = LateReplies(house.session._link)
    house.runner = RunnerRef(LocalLink(RunnerActor(session, house.directory, house.artifacts)))
    house.directory.environment = replace(house.directory.environment, runner=house.runner)
    return session


async def test_whoever_joins_it_then_does_not_have_it_run_twice(build: Build) -> None:
    model = ScriptedModel(["once", "twice"])
    house = build(LlmAgent(name="root", model=model))
    session = late(house)
    starting = asyncio.create_task(house.start(turn="e-1"))
    await session.is_open.wait()
    await house.runner.recover_turn(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    session.may_hear.set()
    await starting
    events, outcome = await house.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["once"]
    assert len(model.requests) == 1
    assert (await house.runner.statistics()).counts["turns"] == 1


async def test_whoever_cancels_it_then_waits_until_it_can_be_cancelled(build: Build) -> None:
    house = build(LlmAgent(name="root", model=ScriptedModel(["said"])))
    session = late(house)
    starting = asyncio.create_task(house.start(turn="e-1"))
    await session.is_open.wait()
    cancelling = asyncio.create_task(house.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-1")))
    # The Session actor has been asked, and does not have it in line.
    await house.session.statistics()
    assert not cancelling.done()
    session.may_hear.set()
    await starting
    await cancelling
    assert (await house.runner.statistics()).counts["running"] == 0
    session.is_open.clear()
    assert await house.start(turn="e-2") == "e-2"


async def test_one_that_waits_in_line_is_taken_out_of_it(build: Build) -> None:
    model = ScriptedModel(["first", "third"])
    house = build(LlmAgent(name="root", model=model))
    session = late(house)
    first = asyncio.create_task(house.start(turn="e-1"))
    await session.is_open.wait()
    second = asyncio.create_task(house.start(turn="e-2"))
    third = asyncio.create_task(house.start(turn="e-3"))
    await house.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError):
        await second
    session.may_hear.set()
    await asyncio.gather(first, third)
    assert [event.text for event in (await house.end("e-3"))[0]] == ["third"]
    assert [event.text for event in await house.log() if event.author == "user"] == ["hi", "hi"]
