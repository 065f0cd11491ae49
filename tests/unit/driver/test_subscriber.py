"""News of turns, also when the Session actor is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.messages import protocol as p
from actors.refs import SessionRef
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.subscriber import Subscriber
from runtime.driver.turns.turn import Turn
from runtime.engine.local import LocalLink
from tests.support.fixtures.restarting_link import Restarting
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled

NOBODY: Any = None
"""The client of a turn whose log need not be read."""


async def texts_at_end(turn: TurnState) -> list[str]:
    """The texts of a turn's events, once it has ended."""
    # As the reply to its start does.
    turn.mark_started("root")
    return [event.text for event in (await Turn(NOBODY, turn, {})).events]


@pytest.mark.parametrize("has_polled", [True, False])
async def test_turns_are_told_of_by_another_session_actor_that_has_heard_of_the_driver_already(
    desk: SessionFixture, has_polled: bool
) -> None:
    link = Restarting(desk.actor)
    subscriber = Subscriber(SessionRef(link), "d", is_permanent=True)
    turn = TurnState(KEY, "e-1")
    if has_polled:
        subscriber.add(turn)
        await settled()
        await desk.open("e-1", subscriber="d")
        link.is_lost()
    else:
        await desk.open("e-1", subscriber="d")
        # The first poll is on its way when the actor is lost.
        link.is_lost()
        subscriber.add(turn)
        await settled()
    again = await desk.restarted()
    # A turn of another session is begun before the driver asks for news.
    await again.open("e-2", key=OTHER, subscriber="d")
    await again.say(again.event("root", "told all the same"))
    await again.close()
    if not has_polled:
        # There was nothing yet by which it could know that this is another: it learns that with the first news.
        await again.say(again.event("root", "of another turn", turn="e-2"), turn="e-2", key=OTHER)
    link.is_back(again.actor)
    assert await texts_at_end(turn) == ["told all the same"]
    await subscriber.close(RuntimeError("closed"))
    await again.ref.stop()


class LateNews(SessionRef):
    """A client whose news take as long as the test wants.

    Attributes:
        may_come: set while they come at once.
    """

    def __init__(self, desk: SessionFixture) -> None:
        super().__init__(LocalLink(desk.actor))
        self.may_come = asyncio.Event()
        self.may_come.set()

    async def _ask(self, request: p.Request[Any], *args: Any, **options: Any) -> Any:
        reply = await super()._ask(request, *args, **options)
        if isinstance(request, p.Poll):
            await self.may_come.wait()
        return reply


@pytest.mark.parametrize("is_early", [True, False])
async def test_the_end_of_a_pause_that_is_told_again_is_not_that_of_the_answer(desk: SessionFixture, is_early: bool) -> None:
    session = LateNews(desk)
    subscriber = Subscriber(session, "d", is_permanent=True)
    asked = TurnState(KEY, "e-1")
    subscriber.add(asked)
    await desk.open("e-1", subscriber="d")
    await desk.say(desk.event("root", "may I?", call="c1"))
    await desk.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    assert await texts_at_end(asked) == ["may I?"]
    answer = TurnState(KEY, "e-2", is_answer=True)
    subscriber.add(answer)
    subscriber.starting.begin()
    if not is_early:
        session.may_come.clear()
    # The driver has asked for the turn as well, since the Session actor did not know it, and that was on its way for long.
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=asked.after_seq))
    await settled()
    begun = await desk.open("e-1", "yes", answers=("c1",), subscriber="d")
    subscriber.rename(answer, "e-1", begun.seq)
    answer.mark_started("root", begun.seq)
    subscriber.starting.end()
    session.may_come.set()
    await settled()
    assert not answer.is_over
    await desk.say(desk.event("root", "thanks"), epoch=2)
    await desk.close(epoch=2)
    assert await texts_at_end(answer) == ["thanks"]
    await subscriber.close(RuntimeError("closed"))
    await desk.ref.stop()


async def test_a_message_is_told_the_end_of_the_turn_that_has_read_it_though_another_message_was_told_before(
    desk: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.driver.turns.subscriber.SEEK_S", 0.0)
    subscriber = Subscriber(desk.ref, "d", is_permanent=True)
    turn, message = TurnState(KEY, "e-1"), TurnState(KEY, "e-2")
    await desk.open(subscriber="d")
    subscriber.add(turn)
    await desk.say(desk.event("root", "said"))
    await settled()
    subscriber.add(message)
    await desk.close()
    assert await texts_at_end(turn) == ["said"]
    subscriber.rename(message, "e-1", 0, is_joined=True)
    assert await asyncio.wait_for(texts_at_end(message), 10) == ["said"]
    await subscriber.close(RuntimeError("closed"))
    await desk.ref.stop()


class Polls(LateNews):
    """Counts the polls."""

    def __init__(self, desk: SessionFixture) -> None:
        super().__init__(desk)
        self.count = 0

    async def _ask(self, request: p.Request[Any], *args: Any, **options: Any) -> Any:
        self.count += isinstance(request, p.Poll)
        return await super()._ask(request, *args, **options)


async def ended_turn(desk: SessionFixture, subscriber: Subscriber, turn_id: str) -> None:
    turn = TurnState(KEY, turn_id)
    subscriber.add(turn)
    await settled()
    await desk.open(turn_id, subscriber="d")
    await desk.say(desk.event("root", "said", turn=turn_id), turn=turn_id)
    await desk.close(turn=turn_id)
    assert await texts_at_end(turn) == ["said"]


async def test_between_two_turns_it_polls_when_the_next_one_begins_or_a_moment_later(
    desk: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.driver.turns.subscriber.REST_S", 0.3)
    session = Polls(desk)
    subscriber = Subscriber(session, "d", is_permanent=True)
    await ended_turn(desk, subscriber, "e-1")
    await settled()
    before = session.count
    subscriber.add(TurnState(KEY, "e-2"))
    await settled()
    assert session.count == before + 1
    await ended_turn(desk, subscriber, "e-2")
    await settled()
    before = session.count
    await asyncio.sleep(0.6)
    assert session.count == before + 1
    await subscriber.close(RuntimeError("closed"))
    await desk.ref.stop()
