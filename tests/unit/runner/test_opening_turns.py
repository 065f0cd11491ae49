"""How turns are opened, also those whose reply the Runner still waits for, and what a turn leaves that cannot be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors import LlmAgent, SequentialAgent
from actors.errors import ActorRestartsError, StoreError, TurnCancelledError
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.testing import ScriptedModel
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import KEY, settled

Build = Callable[..., RunnerFixture]


class LateReplies(SessionRef):
    """A client of the Session actor that gets the reply to OpenTurn only when it may.

    Attributes:
        only: of this subscriber's requests; None: of all.
        replies: all so far.
    """

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.only: str | None = None
        self.replies: list[p.OpenTurnReply] = []
        self.is_open = asyncio.Event()
        self.may_hear = asyncio.Event()

    async def open_turn(self, message: p.OpenTurn, *args: Any) -> p.OpenTurnReply:
        opened = await super().open_turn(message)
        self.replies.append(opened)
        if self.only not in (None, message.subscriber):
            return opened
        self.is_open.set()
        await self.may_hear.wait()
        return opened


def late(fixture: RunnerFixture) -> LateReplies:
    """Give the fixture a Runner that gets replies late."""
    session = LateReplies(fixture.session._link)
    fixture.use(session)
    return session


async def until_none_runs(fixture: RunnerFixture) -> None:
    """Wait until the Runner has noticed the ends of its turns."""
    while (await fixture.runner.statistics()).counts["running"]:
        await settled()


async def test_whoever_joins_it_then_does_not_have_it_run_twice(build: Build) -> None:
    model = ScriptedModel(["once", "twice"])
    fixture = build(LlmAgent(name="root", model=model))
    session = late(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await session.is_open.wait()
    await fixture.runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1"))
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
    cancelling = asyncio.create_task(fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1")))
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
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError):
        await second
    session.may_hear.set()
    await asyncio.gather(first, third)
    assert [event.text for event in (await fixture.end("e-3"))[0]] == ["third"]
    assert [event.text for event in await fixture.log() if event.author == "user"] == ["hi", "hi"]


async def test_one_that_was_resumed_meanwhile_goes_on_undisturbed(build: Build) -> None:
    asked, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        asked.set()
        await may_go_on.wait()
        return "waited"

    first = LlmAgent(name="first", model=ScriptedModel([{"call": "wait"}, "one"]), tools=[wait])
    second = LlmAgent(name="second", model=ScriptedModel(["two"]))
    fixture = build(SequentialAgent(name="root", sub_agents=[first, second]))
    session = late(fixture)
    session.only = "slow"
    starting = asyncio.create_task(fixture.start(turn="e-1", subscriber="slow", repeatable=True))
    await session.is_open.wait()
    await fixture.restart_session()
    await fixture.start(turn="e-1", subscriber="quick", repeatable=True)
    await asked.wait()
    session.may_hear.set()
    await starting
    may_go_on.set()
    events, outcome = await fixture.end("quick")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events if event.text] == ["one", "two"]
    assert (await fixture.runner.statistics()).counts["turns"] == 1


async def test_one_that_is_in_the_way_of_another_is_not_resumed_while_its_own_request_is_about_to_run_it(build: Build) -> None:
    model = ScriptedModel(["one", "two", "three"])
    fixture = build(LlmAgent(name="root", model=model))
    session = late(fixture)
    session.only = "slow"
    starting = asyncio.create_task(fixture.start(turn="e-1", subscriber="slow"))
    await session.is_open.wait()
    await fixture.restart_session()
    next_one = asyncio.create_task(fixture.start(turn="e-2", subscriber="quick"))
    await until(lambda: any(isinstance(reply, p.ResumeRequired) for reply in session.replies))
    await settled()
    session.may_hear.set()
    await asyncio.gather(starting, next_one)
    events, outcome = await fixture.end("quick")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["two"]
    assert (await fixture.runner.statistics()).counts["turns"] == len(model.requests) == 2


class LostLastReply(SessionRef):
    """A client of the Session actor that loses the reply to its first OpenTurn, with the actor."""

    def __init__(self, fixture: RunnerFixture) -> None:
        super().__init__(fixture.session._link)
        self._fixture = fixture
        self.is_lost = False
        self.ends_turn = False

    async def open_turn(self, message: p.OpenTurn, *args: Any) -> p.OpenTurnReply:
        opened = await super().open_turn(message, *args)
        if not self.is_lost:
            self.is_lost = True
            if self.ends_turn:
                assert isinstance(opened, p.TurnBegun)
                turn = p.TurnRef(message.key, message.invocation_id, opened.epoch, generation=opened.generation)
                await self.ask(p.CloseTurn(turn=turn, agent="root", outcome=p.Cancelled(agent="root")))
            await self._fixture.restart_session()
            raise ActorRestartsError("session")
        return opened


async def test_one_that_is_stored_when_the_session_actor_is_lost_with_its_reply_begins_once(build: Build) -> None:
    model = ScriptedModel(["once", "twice"])
    fixture = build(LlmAgent(name="root", model=model))
    session = LostLastReply(fixture)
    fixture.use(session)
    assert await fixture.start(turn="e-1") == "e-1"
    events, outcome = await fixture.end("e-1")
    assert session.is_lost
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["once"]
    assert len(model.requests) == 1
    assert [event.text for event in await fixture.log()] == ["hi", "once"]
    await until_none_runs(fixture)


async def test_one_that_has_ended_when_the_session_actor_is_lost_with_its_reply_is_joined(build: Build) -> None:
    model = ScriptedModel(["never"])
    fixture = build(LlmAgent(name="root", model=model))
    session = LostLastReply(fixture)
    session.ends_turn = True
    fixture.use(session)
    assert await fixture.start(turn="e-1") == "e-1"
    assert model.requests == []
    await until_none_runs(fixture)


async def test_one_that_was_rewound_runs_once_more_under_its_id_while_the_reply_to_the_first_is_awaited(build: Build) -> None:
    model = ScriptedModel(["once", "again"])
    fixture = build(LlmAgent(name="root", model=model))
    session = late(fixture)
    session.only = "slow"
    starting = asyncio.create_task(fixture.start(turn="e-1", subscriber="slow", repeatable=True))
    await session.is_open.wait()
    await fixture.restart_session()
    await fixture.start(turn="e-1", subscriber="quick", repeatable=True)
    assert isinstance((await fixture.end("quick"))[1], p.Finished)
    await fixture.session.ask(RewindRequest(key=KEY, invocation_id="e-1"))
    await fixture.start(turn="e-1", subscriber="again")
    events, outcome = await fixture.end("again")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["again"]
    session.may_hear.set()
    await starting
    assert (await fixture.runner.statistics()).counts["turns"] == 2


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
