"""Runs that were lost with their agents: what they have sent is stored first, and others have their numbers later."""

from __future__ import annotations

import asyncio

import pytest

from actors.layers.listing.client import get_turn
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.turn_info import TurnInfo
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled

MAX_LOST = 50
"""Lost processes that the record of a turn names."""

MAX_REASON = 200
"""Characters of the reason of one."""


async def test_a_turn_is_told_to_be_as_far_as_what_its_lost_runs_have_sent_once_that_is_on_disk(session: SessionFixture) -> None:
    await session.open()
    held = HeldCommits(session.store)
    append = p.Append(turn=session.turn_ref(run=1), events=[encode(session.event("root", "one"))])
    sent = asyncio.create_task(session.ref.ask(append))
    await settled()
    abandoned = asyncio.create_task(session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,))))
    done, _ = await asyncio.wait([abandoned], timeout=0.05)
    held.let_go()
    assert done == set()
    assert (await abandoned).head_seq == (await sent).first_seq == 2


async def test_a_run_of_the_next_epoch_writes_under_the_number_of_one_that_was_lost(session: SessionFixture) -> None:
    await session.open()
    await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert isinstance(resumed, p.TurnResumed)
    append = p.Append(turn=session.turn_ref(epoch=2, run=1), events=[encode(session.event("root", "one"))])
    assert (await session.ref.ask(append)).first_seq == 2


async def test_an_answer_that_is_sent_again_is_joined(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(call_ids=("c1",)))
    before = session._events
    assert isinstance(await session.answer("e-1", "c1"), p.TurnBegun)
    await session.close(epoch=2)
    # Its first reply was lost: the same event comes once more.
    session._events = before
    assert await session.answer("e-1", "c1", repeatable=True) == p.TurnJoined(invocation_id="e-1", seq=3, agent="root")


async def where(session: SessionFixture) -> TurnInfo:
    return await get_turn(session.ref, KEY, "e-1")


ENDS: dict[str, p.AnyOutcome] = {
    "finished": p.Finished(agent="root"),
    "failed": p.Failed(agent="root", error_code="E"),
    "cancelled": p.Cancelled(),
}


@pytest.mark.parametrize("state", ENDS)
async def test_what_was_lost_stays_with_a_turn_that_has_ended(session: SessionFixture, state: str) -> None:
    await session.open()
    for times in (1, 1, 2):
        reason = "killed" * MAX_REASON
        lost = p.AbandonRuns(turn=session.turn_ref(), lost=(times,), run="root", times=times, agent="root", reason=reason)
        await session.ref.ask(lost)
    assert [each.agent for each in (await where(session)).lost] == ["root", "root"]
    await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0))
    await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner/2"))
    await session.close(epoch=2, outcome=ENDS[state])
    session = await session.restarted()
    turn = await where(session)
    assert (turn.state, [each.agent for each in turn.lost]) == (state, ["root", "root", ""])
    assert turn.begun_s <= turn.lost[0].lost_s <= turn.lost[-1].lost_s <= turn.ended_s
    assert len(turn.lost[0].reason) == MAX_REASON


async def test_a_pause_keeps_what_was_lost_and_a_turn_without_losses_has_nothing_more_in_its_record(
    session: SessionFixture,
) -> None:
    await session.open()
    for times in range(1, MAX_LOST + 5):
        await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,), run="root", times=times, agent="root"))
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(call_ids=("c1",)))
    assert isinstance(await session.answer("e-1", "c1"), p.TurnBegun)
    again = p.AbandonRuns(turn=session.turn_ref(epoch=2), lost=(1,), run="root", times=1, agent="root", reason="the newest")
    await session.ref.ask(again)
    await session.close(epoch=2)
    lost = (await where(session)).lost
    assert (len(lost), lost[-1].reason) == (MAX_LOST, "the newest")
    await session.open(turn="e-2")
    await session.close(turn="e-2")
    row = session.store.turn(KEY, "e-2")
    assert row is not None
    assert row.temp == b""
