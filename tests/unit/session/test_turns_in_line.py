"""Turns that wait in line, when the Runner that had put them there is lost."""

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
