"""Forks as the Session actor makes them: once, also when the request is sent again after a loss."""

from __future__ import annotations

import msgspec
import pytest

from actors import RunConfig
from actors.errors import SessionExistsError
from actors.layers.forks import ForkSession
from actors.layers.stores.schedule import WaitingMessage, waiting_row
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support.fixtures.session_fixture import KEY, SessionFixture

FORK = ForkSession(key=KEY, invocation_id="e-1", fork="other")
AGAIN = msgspec.structs.replace(FORK, again=True)
OTHER, LIKE_IT = SessionKey(KEY.app, KEY.user, "other"), SessionKey(KEY.app, KEY.user, "like it")


async def events(session: SessionFixture) -> int:
    reply = await session.ref.ask(p.GetSessionRequest(key=OTHER))
    return len(reply.session.events) if reply.session is not None else -1


async def test_a_request_that_is_sent_again_after_a_loss_finds_the_fork(session: SessionFixture) -> None:
    await session.turn("e-1", "a", "b")
    await session.turn("e-2", "c")
    await session.ref.ask(FORK)
    again = await session.restarted()
    with pytest.raises(SessionExistsError):
        await again.ref.ask(FORK)
    await again.ref.ask(AGAIN)
    assert await events(again) == 3
    # Another session that has the id is no fork of this turn, as long as it may be.
    await again.turn("e-1", "a", "b", key=LIKE_IT)
    for other in ({"invocation_id": "e-2"}, {"fork": LIKE_IT.session}):
        with pytest.raises(SessionExistsError):
            await again.ref.ask(msgspec.structs.replace(AGAIN, **other))
    await again.ref.stop()


async def test_a_request_that_is_sent_again_finds_the_fork_whatever_the_session_does(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", call="c-1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c-1",)))
    await session.ref.ask(FORK)
    answered = await session.answer("e-1", "c-1")
    assert isinstance(answered, p.TurnBegun)
    # It runs, and then it is longer than the fork.
    await session.ref.ask(AGAIN)
    await session.say(session.event("root", "x"), epoch=answered.epoch)
    await session.close("e-1", epoch=answered.epoch)
    await session.ref.ask(AGAIN)
    assert await events(session) == 2


@pytest.mark.parametrize("begun", [[], ["e-2"], ["e-3", "e-2"], ["e-3"]])
async def test_a_request_that_is_sent_again_finds_the_fork_by_its_message(session: SessionFixture, begun: list[str]) -> None:
    await session.turn("e-1", "a")
    message = waiting_row(OTHER, "b", "e-2", WaitingMessage(), RunConfig(), at_s=0)
    await session.ref.ask(msgspec.structs.replace(FORK, begins=message))
    for turn in begun:
        await session.turn(turn, "b", key=OTHER)
    await session.ref.ask(msgspec.structs.replace(AGAIN, begins=message))
    # One that another request has made has not.
    other = waiting_row(OTHER, "b", "e-9", WaitingMessage(), RunConfig(), at_s=0)
    with pytest.raises(SessionExistsError):
        await session.ref.ask(msgspec.structs.replace(AGAIN, begins=other))
    assert await events(session) == 2 + 2 * len(begun)
