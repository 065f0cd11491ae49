"""Ends of turns on their way to the disk: who asks meanwhile hears when they are there, also if their agent waits no more."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from actors.errors import FencedError, StoreError
from actors.interfaces.stores import TurnFilter
from actors.messages import protocol as p
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled

CANCEL = p.CancelTurn(key=KEY, invocation_id="e-1")


async def ending(session: SessionFixture) -> HeldCommits:
    """A turn whose agent has sent the last event, and was stopped then: the commit is held up."""
    await session.open()
    held = HeldCommits(session.store)
    sent = asyncio.create_task(session.say(session.event("root", "bye"), outcome=p.Finished(agent="root")))
    await settled()
    sent.cancel()
    with suppress(asyncio.CancelledError):
        await sent
    return held


def statuses(session: SessionFixture) -> list[str]:
    return [row.status for _, row in session.store.turns(TurnFilter(app=KEY.app, limit=9))]


async def test_a_cancel_is_acknowledged_when_the_end_is_on_disk(session: SessionFixture) -> None:
    held = await ending(session)
    cancelled = asyncio.create_task(session.ref.ask(CANCEL))
    done, _ = await asyncio.wait([cancelled], timeout=0.05)
    held.let_go()
    assert done == set()
    await cancelled
    assert statuses(session) == ["finished"]


async def test_the_runner_hears_that_the_turn_has_ended_when_the_end_is_on_disk(session: SessionFixture) -> None:
    held = await ending(session)
    closed = asyncio.create_task(session.close(outcome=p.Cancelled(agent="root")))
    done, _ = await asyncio.wait([closed], timeout=0.05)
    held.let_go()
    assert done == set()
    with pytest.raises(FencedError):
        await closed
    assert statuses(session) == ["finished"]


async def test_a_turn_whose_end_could_not_be_stored_may_be_cancelled_twice_at_once(session: SessionFixture) -> None:
    held = await ending(session)
    cancels = [asyncio.create_task(session.ref.ask(CANCEL)) for _ in range(2)]
    await settled()
    session.store.failures = 2
    held.let_go()
    assert await asyncio.gather(*cancels) == [p.Ack(), p.Ack()]
    assert statuses(session) == ["cancelled"]


async def test_who_abandons_the_run_that_has_sent_the_end_hears_that_the_turn_is_open_when_that_is_not_stored(
    session: SessionFixture,
) -> None:
    held = await ending(session)
    abandoned = asyncio.create_task(session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,))))
    done, _ = await asyncio.wait([abandoned], timeout=0.05)
    assert done == set()
    session.store.failures = 2
    held.let_go()
    assert (await abandoned).head_seq == 1
    assert statuses(session) == ["running"]
    await session.close()
    assert statuses(session) == ["finished"]


async def test_the_same_where_both_have_read_the_log_anew(session: SessionFixture) -> None:
    await session.open()
    session.store.failures = 2
    with pytest.raises(StoreError):
        await session.say(session.event("root", "lost"))
    held = HeldCommits(session.store)
    sent = asyncio.create_task(session.say(session.event("root", "bye"), outcome=p.Finished(agent="root")))
    abandoned = asyncio.create_task(session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,))))
    await asyncio.to_thread(held.is_reached.wait, 20)
    await settled()
    assert not abandoned.done()
    session.store.failures = 2
    held.let_go()
    with pytest.raises(StoreError):
        await sent
    assert (await abandoned).head_seq == 1


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_turn_is_resumed_only_if_its_end_was_not_stored(session: SessionFixture, is_stored: bool) -> None:
    held = await ending(session)
    resumed = asyncio.create_task(session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner")))
    done, _ = await asyncio.wait([resumed], timeout=0.05)
    assert done == set()
    session.store.failures = 0 if is_stored else 2
    held.let_go()
    assert isinstance(await resumed, p.Ack if is_stored else p.TurnResumed)
