"""The messages of a plain turn are replied to from the disk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.any_message import decode_message
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled


class Sent:
    """A message on its way, and the replies to it: one at most."""

    def __init__(self, session: SessionFixture, message: p.Message) -> None:
        self.last: list[p.Message] = []
        self._task = asyncio.create_task(self._ask(session, message))

    async def _ask(self, session: SessionFixture, message: p.Message) -> None:
        self.last.append(decode_message(await session.actor.receive(encode(message))))

    async def reply(self) -> p.Message:
        await self._task
        return self.last[0]


def opening(session: SessionFixture, turn: str, **more: Any) -> p.OpenTurn:
    event = session.event("user", "hi", turn=turn, **more)
    return p.OpenTurn(key=KEY, invocation_id=turn, event=encode(event), auto_create=True, runner="runner", subscriber="d")


def ending(session: SessionFixture, begun: p.Message, turn: str, text: str = "two", **more: Any) -> p.Append:
    assert isinstance(begun, p.TurnBegun)
    ref = p.TurnRef(KEY, turn, begun.epoch, generation=begun.generation)
    event = encode(session.event("root", text, turn=turn, **more))
    return p.Append(turn=ref, events=[event], selected="root", outcome=p.Finished(agent="root"))


@pytest.fixture
async def told(session: SessionFixture) -> None:
    """A session with a turn that is over."""
    await session.turn("e-1", "one")


@pytest.mark.usefixtures("told")
async def test_a_plain_turn_is_replied_to_when_it_is_on_disk(session: SessionFixture) -> None:
    held = HeldCommits(session.store)
    first = Sent(session, opening(session, "e-2"))
    await settled()
    assert first.last == []
    held.let_go()
    assert await Sent(session, ending(session, await first.reply(), "e-2")).reply() == p.Appended(first_seq=4)
    assert session.positions() == [1, 2, 3, 4]
    assert (await session.news("d"))[1:] == ([(4, "two")], ["Finished"])
    # The time of the session is that of its last event.
    (row,) = session.store.sessions(KEY.app, KEY.user)
    assert row.updated_s == session.actor._logs.in_memory(KEY).updated_s  # type: ignore[union-attr]


@pytest.mark.usefixtures("told")
async def test_each_gets_the_error_of_the_store_once_and_the_next_turn_begins(session: SessionFixture) -> None:
    held = HeldCommits(session.store)
    first = Sent(session, opening(session, "e-2"))
    await settled()
    session.store.failures = 10
    held.let_go()
    error = await first.reply()
    session.store.failures = 0
    assert isinstance(error, p.ErrorReply)
    assert error.error == "StoreError"
    log = session.actor._logs.in_memory(KEY)
    assert log is not None
    assert not log.unwritten
    begun = await Sent(session, opening(session, "e-3")).reply()
    await Sent(session, ending(session, begun, "e-3", "three")).reply()
    assert session.positions() == [1, 2, 3, 4]


@pytest.mark.usefixtures("told")
async def test_what_is_refused_leaves_the_session_free(session: SessionFixture) -> None:
    event = encode(session.event("user", "hi", turn=" e-2"))
    wrong = Sent(session, p.OpenTurn(key=KEY, invocation_id=" e-2", event=event, runner="runner"))
    error = await wrong.reply()
    assert isinstance(error, p.ErrorReply)
    assert error.error == "InvalidIdError"
    assert isinstance(await Sent(session, opening(session, "e-3")).reply(), p.TurnBegun)


async def test_an_end_that_is_sent_again_and_the_next_turn_wait_for_the_first(session: SessionFixture) -> None:
    begun = await Sent(session, opening(session, "e-1", state_delta={"user:k": 1})).reply()
    end = ending(session, begun, "e-1", state_delta={"k": 1})
    sent = [Sent(session, message) for message in (end, end, opening(session, "e-2"))]
    first, again, another = [await each.reply() for each in sent]
    assert isinstance(first, p.Appended)
    assert isinstance(again, p.Appended)
    assert first.first_seq == again.first_seq == 2
    assert isinstance(another, p.TurnBegun)
