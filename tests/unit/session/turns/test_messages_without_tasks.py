"""The messages of a plain turn need no task: they are taken in the step in which they come, and replied to from the disk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.any_message import decode_message
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled


class Taken:
    """Takes the replies to one message."""

    def __init__(self) -> None:
        self.early: list[p.Message] = []
        self.last: list[p.Message] = []

    def reply(self, raw: bytes) -> None:
        self.last.append(decode_message(raw))

    def reply_early(self, raw: bytes) -> None:
        self.early.append(decode_message(raw))


def sent(session: SessionFixture, message: p.Message) -> Taken:
    """The replies to a message that needs no task."""
    taken = Taken()
    assert session.actor.begin(encode(message), taken) is None
    return taken


async def needs_a_task(session: SessionFixture, message: p.Message) -> p.Message:
    """The reply to a message that needs a task."""
    taken = Taken()
    rest = session.actor.begin(encode(message), taken)
    assert rest is not None
    reply = decode_message(await rest)
    assert not taken.last
    return reply


def opening(session: SessionFixture, turn: str, **more: Any) -> p.OpenTurn:
    event = session.event("user", "hi", turn=turn, **more)
    return p.OpenTurn(key=KEY, invocation_id=turn, event=encode(event), auto_create=True, runner="runner", subscriber="d")


def ending(session: SessionFixture, begun: p.Message, turn: str, text: str = "two", **more: Any) -> p.Append:
    assert isinstance(begun, p.TurnBegun)
    ref = p.TurnRef(KEY, turn, begun.epoch, generation=begun.generation)
    event = encode(session.event("root", text, turn=turn, **more))
    return p.Append(turn=ref, events=[event], selected="root", outcome=p.Finished(agent="root"))


async def on_disk(session: SessionFixture) -> None:
    """Wait until all that was sent is stored, and replied to."""
    await session.actor._access.commits.drain()
    await settled()


@pytest.fixture
async def told(session: SessionFixture) -> None:
    """A session with a turn that is over."""
    await session.turn("e-1", "one")


@pytest.mark.usefixtures("told")
async def test_a_plain_turn_is_replied_to_when_it_is_on_disk(session: SessionFixture) -> None:
    held = HeldCommits(session.store)
    first = sent(session, opening(session, "e-2"))
    await settled()
    assert (first.early, first.last) == ([], [])
    held.let_go()
    await on_disk(session)
    second = sent(session, ending(session, first.last[0], "e-2"))
    await on_disk(session)
    assert second.last == [p.Appended(first_seq=4)]
    assert session.positions() == [1, 2, 3, 4]
    assert (await session.news("d"))[1:] == ([(4, "two")], ["Finished"])
    # The time of the session is that of its last event.
    (row,) = session.store.sessions(KEY.app, KEY.user)
    assert row.updated_s == session.actor._logs.in_memory(KEY).updated_s  # type: ignore[union-attr]


@pytest.mark.usefixtures("told")
async def test_each_gets_the_error_of_the_store_once_and_the_next_turn_begins(session: SessionFixture) -> None:
    held = HeldCommits(session.store)
    first = sent(session, opening(session, "e-2"))
    session.store.failures = 10
    held.let_go()
    await on_disk(session)
    session.store.failures = 0
    assert [reply.error for reply in first.last if isinstance(reply, p.ErrorReply)] == ["StoreError"]
    log = session.actor._logs.in_memory(KEY)
    assert log is not None
    assert not log.unwritten
    # The log is read again, so this one needs a task.
    begun = await needs_a_task(session, opening(session, "e-3"))
    sent(session, ending(session, begun, "e-3", "three"))
    await session.actor._access.commits.drain()
    assert session.positions() == [1, 2, 3, 4]


@pytest.mark.usefixtures("told")
async def test_what_is_refused_leaves_the_session_free(session: SessionFixture) -> None:
    event = encode(session.event("user", "hi", turn=" e-2"))
    wrong = sent(session, p.OpenTurn(key=KEY, invocation_id=" e-2", event=event, runner="runner"))
    (error,) = wrong.last
    assert isinstance(error, p.ErrorReply)
    assert error.error == "InvalidIdError"
    right = sent(session, opening(session, "e-3"))
    await on_disk(session)
    assert isinstance(right.last[0], p.TurnBegun)


async def test_what_has_to_be_waited_for_needs_a_task(session: SessionFixture) -> None:
    begun = await needs_a_task(session, opening(session, "e-1", state_delta={"k": 0}))
    assert isinstance(await needs_a_task(session, ending(session, begun, "e-1", state_delta={"k": 1})), p.Appended)
    begun = await needs_a_task(session, opening(session, "e-2", state_delta={"user:k": 1}))
    end = ending(session, begun, "e-2")
    appended = sent(session, end)
    # The same again waits for the first one; and another turn for the end of this one.
    again = asyncio.create_task(needs_a_task(session, end))
    another = asyncio.create_task(needs_a_task(session, opening(session, "e-3")))
    assert (await again) == p.Appended(first_seq=4)
    assert isinstance(await another, p.TurnBegun)
    assert [type(reply) for reply in appended.last] == [p.Appended]
