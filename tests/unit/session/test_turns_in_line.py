"""Turns that wait in line: who follows them, and what becomes of them when the Runner that had put them there is lost."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import TurnCancelledError
from actors.messages import protocol as p
from tests.support.session_fixture import SessionFixture, settled


async def test_a_request_of_the_next_runner_does_not_join_what_the_lost_one_had_in_line(session: SessionFixture) -> None:
    await session.open(runner="lost")
    in_line = asyncio.create_task(session.ask_to_open("e-2", runner="lost"))
    await settled()
    # It comes before the Runner that was started again has asked for the open turns.
    assert await session.ask_to_open("e-2", runner="next", repeatable=True) == p.ResumeFirst(invocation_id="e-1")
    with pytest.raises(TurnCancelledError):
        await in_line


async def test_a_request_of_the_same_runner_joins_what_it_has_in_line(session: SessionFixture) -> None:
    await session.open()
    in_line = asyncio.create_task(session.ask_to_open("e-2"))
    await settled()
    assert isinstance(await session.ask_to_open("e-2", repeatable=True), p.TurnJoined)
    await session.close()
    assert isinstance(await in_line, p.TurnBegun)


async def test_who_asks_for_a_paused_turn_whose_answer_is_in_line_gets_it_from_its_first_event(session: SessionFixture) -> None:
    answering = await answer_in_line(session)
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    number, told, ends = await asyncio.wait_for(session.news("d"), 5)
    assert (told, ends) == ([(2, "may I?")], [])
    await session.close("e-2")
    assert (await answering).seq == 4
    await session.say(session.event("root", "done"), epoch=2)
    await session.close(epoch=2)
    assert (await asyncio.wait_for(session.news("d", number), 5))[1:] == ([(5, "done")], ["Finished"])


async def answer_in_line(session: SessionFixture) -> asyncio.Task[p.TurnBegun]:
    """The turn e-1 is paused, e-2 runs, and the answer to the call of e-1 waits for its end."""
    await session.open("e-1")
    await session.say(session.event("root", "may I?", call="c1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c1",)))
    await session.open("e-2")
    answering = asyncio.create_task(session.open("e-1", "yes", answers=("c1",)))
    await settled()
    return answering
