"""Cancels that meet the loss of a Runner: whoever is told that a turn was cancelled can rely on it."""

from __future__ import annotations

import msgspec
import pytest

from actors.layers.listing.client import get_turn
from actors.messages import protocol as p
from actors.messages.event import decode_event
from tests.support.fixtures.session_fixture import KEY, SessionFixture

LOST, NEXT = "runner/1", "runner/2"
"""A Runner, and the one that was started in its place."""


def cancel(runner: str, *, begins: bool = False) -> p.CancelTurn:
    return p.CancelTurn(key=KEY, invocation_id="e-1", runner=runner, begins=begins)


async def status(session: SessionFixture) -> str:
    turn = await get_turn(session.ref, KEY, "e-1")
    return turn.state


async def test_the_turn_of_a_lost_runner_is_cancelled_by_its_successor_before_that_has_resumed_anything(
    session: SessionFixture,
) -> None:
    await session.open(runner=LOST)
    assert await session.ref.ask(cancel(NEXT)) == p.NotLeader(number=0)
    assert await status(session) == "running"
    assert await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)) == p.Ack()
    assert await session.ref.ask(cancel(NEXT)) == p.Ack()
    assert await status(session) == "cancelled"
    assert await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=NEXT)) == p.Ack()


async def test_a_turn_that_a_runner_is_about_to_run_is_left_to_it(session: SessionFixture) -> None:
    await session.open(runner=LOST)
    assert await session.ref.ask(cancel(LOST, begins=True)) == p.AlreadyRunning()
    assert await status(session) == "running"


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_a_turn_that_was_opened_for_a_request_that_is_over_is_cancelled(session: SessionFixture, is_resumed: bool) -> None:
    await session.open(runner=LOST)
    if is_resumed:
        await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=LOST))
    assert await session.ref.ask(cancel(LOST)) == p.Ack()
    assert await status(session) == "cancelled"


async def test_each_agent_is_told_on_its_own_branch_that_its_call_was_cancelled(session: SessionFixture) -> None:
    await session.open(runner=LOST)
    for branch in ("all.left", "all.right"):
        await session.say(msgspec.structs.replace(session.event("worker", call=f"of {branch}"), branch=branch))
    assert await session.ref.ask(cancel(LOST)) == p.Ack()
    events = [decode_event(raw, seq) for seq, raw in session.store.events(KEY)]
    told = {event.branch: [each.id for each in event.function_responses()] for event in events if any(event.function_responses())}
    assert told == {"all.left": ["of all.left"], "all.right": ["of all.right"]}
