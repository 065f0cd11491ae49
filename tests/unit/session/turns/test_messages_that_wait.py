"""Messages that wait for the turn that runs."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors import RunConfig
from actors.layers.retries import RetryTurn
from actors.layers.schedules.messages import AwaitDue, DueReply
from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.fixtures.session_fixture import KEY, SessionFixture

STEER = RunConfig(on_concurrent_turn="steer")


async def read(session: SessionFixture, turn: str) -> list[str]:
    """What an agent of a turn reads."""
    reply = await session.ref.ask(p.ReadMessages(turn=session.turn_ref(turn), agent="root"))
    return [message.text for message in reply.messages]


async def test_messages_that_come_while_a_turn_begins_are_given_to_it(session: SessionFixture) -> None:
    await session.open()
    await session.say(msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",)))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    said = (session.ask_to_open(f"e-{number}", f"m{number}", config=STEER) for number in (2, 3))
    begun, *left = await asyncio.gather(session.answer("e-1", "c1"), *said)
    assert isinstance(begun, p.TurnBegun)
    assert left == [p.MessageLeft(invocation_id="e-1", after_seq=begun.seq)] * 2
    assert (await session.ref.ask(p.ReadMessages(turn=session.turn_ref("e-1", epoch=begun.epoch), agent="root"))).messages


@pytest.mark.parametrize("from_event", ["", "e-1-root-2"], ids=["", "from a step"])
async def test_messages_that_come_while_a_turn_is_tried_again_are_given_to_it(session: SessionFixture, from_event: str) -> None:
    await session.open()
    await session.say(session.event("root", "kept"))
    await session.close(outcome=p.Failed(agent="root", error_code="E"))
    retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event=from_event)
    said = (session.ask_to_open(f"e-{number}", f"m{number}", config=STEER) for number in (2, 3))
    interrupt = session.ask_to_open("e-4", "m4", config=RunConfig(on_concurrent_turn="interrupt"))
    resumed, *replies = await asyncio.wait_for(asyncio.gather(session.ref.ask(retry), *said, interrupt), 20)
    assert isinstance(resumed, p.TurnResumed)
    assert [type(reply) for reply in replies] == [p.MessageLeft, p.MessageLeft, p.CancelRequired]
    turn = p.TurnRef(KEY, "e-1", resumed.epoch, generation=resumed.generation)
    read = await session.ref.ask(p.ReadMessages(turn=turn, agent="root"))
    assert [message.text for message in read.messages] == ["m2", "m3"]


@pytest.mark.parametrize("is_over", [True, False], ids=["the turn is over", "its end is under way"])
async def test_a_message_begins_no_turn_before_those_that_wait(session: SessionFixture, is_over: bool) -> None:
    await session.open()
    await session.ask_to_open("e-2", "m2", config=STEER)
    end = asyncio.create_task(session.close())
    if is_over:
        await end
    assert await session.ask_to_open("e-3", "m3", config=STEER) == p.MessageLeft(invocation_id="e-2", after_seq=1)
    due = await session.ref.ask(AwaitDue(app=KEY.app, runner="runner"))
    assert isinstance(due, DueReply)
    assert [turn.time.id for turn in due.turns] == ["e-2", "e-3"]
    assert isinstance(await session.ask_to_open("e-2", "m2", config=STEER, due=due.turns[0].time), p.TurnBegun)
    assert await read(session, "e-2") == ["m3"]
    await session.close("e-2")
    assert isinstance(await session.ask_to_open("e-4", "m4", config=STEER), p.TurnBegun)


async def test_the_turn_that_a_message_has_begun_does_not_read_it_before_its_time_has_passed(session: SessionFixture) -> None:
    await session.open()
    event = encode(session.event("user", "more", turn="e-2"))
    message = p.OpenTurn(key=KEY, invocation_id="e-2", event=event, runner="runner", config=STEER)
    await session.ref.open_turn(message)
    await session.close()
    await session.ref.open_turn(message)
    assert await read(session, "e-2") == []


async def test_a_message_that_is_read_as_it_is_stored_is_given_to_the_turn(session: SessionFixture) -> None:
    begun = await session.open()
    said = asyncio.create_task(session.ask_to_open("e-2", "m2", config=STEER))
    # An agent that waits reads it before who sends it is told that it is stored.
    async with asyncio.timeout(20):
        while not await read(session, "e-1"):
            pass
    assert await said == p.MessageLeft(invocation_id="e-1", after_seq=begun.seq)
