"""Ends of turns, also by a cancel: on their way to the disk, owed to the store, or stored and nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import pytest

from actors.errors import FencedError, StoreError, StoreUnavailableError
from actors.interfaces.stores import TurnFilter, Write
from actors.layers.listing.client import count_turns, get_turn, list_turns
from actors.layers.listing.messages import ListPending, ListTurns
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.event import decode_event
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


async def paused(session: SessionFixture) -> None:
    """A turn that waits for an answer, which the store does not know."""
    await session.open()
    asking = msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",))
    await session.say(asking)
    # A group is tried again, one request at a time.
    session.store.failures = 2
    with pytest.raises(StoreError):
        await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))


async def test_a_call_waits_for_an_answer_although_the_store_does_not_know_that_its_turn_is_paused(
    session: SessionFixture,
) -> None:
    await paused(session)
    for asked in (ListPending(app="app"), ListPending(app="app", user=KEY.user, session=KEY.session)):
        assert [call.call_id for call in (await session.ref.ask(asked)).calls] == ["c1"]
    [listed] = await list_turns(session.ref, ListTurns(app="app", state="paused"))
    assert listed.state == "paused"
    assert await list_turns(session.ref, ListTurns(app="app", state="running")) == []
    counts = await count_turns(session.ref, "app")
    assert (counts.running, counts.paused) == (0, 1)


async def test_a_turn_that_was_answered_before_the_store_knew_of_its_pause_runs_and_ends(session: SessionFixture) -> None:
    await paused(session)
    begun = await session.answer("e-1", "c1")
    assert isinstance(begun, p.TurnBegun)
    [listed] = await list_turns(session.ref, ListTurns(app="app"))
    assert (listed.state, listed.epoch) == ("running", 2)
    assert (await session.ref.ask(ListPending(app="app"))).calls == []
    await session.close(epoch=2)
    [listed] = await list_turns(session.ref, ListTurns(app="app"))
    assert (listed.state, listed.epoch) == ("finished", 2)


async def test_a_turn_does_not_begin_beside_one_whose_end_the_store_refuses(session: SessionFixture) -> None:
    await session.open()
    session.store.failures = 3
    with pytest.raises(StoreError):
        await session.close()
    with pytest.raises(StoreError):
        await session.open("e-2")
    await session.open("e-3")
    assert [row.invocation_id for _, row in session.store.running("app")] == ["e-3"]


async def test_an_answer_that_could_not_be_stored_leaves_a_turn_waiting_of_whose_pause_the_store_does_not_know(
    session: SessionFixture,
) -> None:
    await paused(session)
    # The pause comes first.
    session.store.failures = 1
    with pytest.raises(StoreError):
        await session.answer("e-1", "c1")
    assert isinstance(await session.answer("e-1", "c1", only_waiting=True), p.TurnBegun)


async def test_a_runner_asks_again_for_a_turn_whose_end_the_store_does_not_know(session: SessionFixture) -> None:
    await paused(session)
    with pytest.raises(StoreUnavailableError, match="still to be stored"):
        await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await session.ref.stop()


FAILED = p.Failed(agent="root", error_code="ValueError")


async def when_it_has_stopped(session: SessionFixture, turn: str = "e-1") -> tuple[SessionFixture, str]:
    """The next Session actor, and the status of a turn that it finds in the store."""
    heir = await session.restarted()
    await heir.state()
    row = heir.store.turn(KEY, turn)
    assert row is not None
    return heir, row.status


async def test_a_turn_that_is_stored_and_refused_does_not_stay_open(
    hasty: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hasty.turn("e-0", "hello")
    commit = hasty.store.commit

    def commit_and_fail_from_then_on(writes: Sequence[Write]) -> None:
        try:
            commit(writes)
        finally:
            # The connection breaks behind this commit, and the next attempts fail for good.
            hasty.store.failures = 2

    hasty.store.breaks = 1
    with monkeypatch.context() as patched:
        patched.setattr(hasty.store, "commit", commit_and_fail_from_then_on)
        with pytest.raises(StoreError, match="the disk is full"):
            await hasty.open()
    hasty.store.failures = 0
    heir, status = await when_it_has_stopped(hasty)
    await heir.ref.stop()
    assert status == "failed"


async def test_such_a_turn_is_over_when_the_next_one_begins_or_its_runner_hears_of_it(hasty: SessionFixture) -> None:
    await hasty.turn("e-0", "hello")
    hasty.store.leaves = True
    with pytest.raises(StoreUnavailableError):
        await hasty.open("e-1")
    hasty.store.away = hasty.store.leaves = False
    # Its end is stored before the next turn begins.
    hasty.store.failures = 1
    with pytest.raises(StoreError, match="the disk is full"):
        await hasty.open("e-2")
    asked = p.ListOpenTurns(app=KEY.app, runner="runner")
    assert await hasty.ref.ask(asked) == p.OpenTurnsReply(turns=[(KEY, "e-1")])
    await hasty.open("e-2")
    stored = hasty.store.turn(KEY, "e-1")
    assert stored is not None
    assert stored.status == "failed"
    assert await hasty.ref.ask(asked) == p.OpenTurnsReply(turns=[])


@pytest.mark.parametrize("from_event", ["", "e-1-root-2"])
async def test_a_turn_that_could_not_be_retried_does_not_stay_open(hasty: SessionFixture, from_event: str) -> None:
    await hasty.open()
    await hasty.say(hasty.event("root", "hello"), hasty.event("root", "bye"))
    await hasty.close(outcome=FAILED)
    hasty.store.leaves = True
    retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event=from_event, request="r")
    with pytest.raises(StoreUnavailableError):
        await hasty.ref.ask(retry)
    hasty.store.away = hasty.store.leaves = False
    stored = hasty.store.turn(KEY, "e-1")
    assert stored is not None
    assert (stored.status, stored.epoch) == ("running", 2)
    heir, status = await when_it_has_stopped(hasty)
    again = await heir.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await heir.ref.stop()
    assert status == "failed"
    assert isinstance(again, p.TurnResumed)


async def test_a_session_whose_lost_turn_could_not_be_deleted_with_it_keeps_the_turn(hasty: SessionFixture) -> None:
    await hasty.open()
    await hasty.ref.ask(p.AnnounceRunner(runner="runner-2", number=0))
    hasty.store.failures = 2
    with pytest.raises(StoreError):
        await hasty.ref.ask(p.DeleteSessionRequest(key=KEY))
    assert isinstance(await hasty.ask_to_open("e-2", runner="runner-2"), p.ResumeRequired)


async def test_a_turn_whose_end_was_stored_and_refused_is_over_when_its_runner_and_its_agent_are_lost(
    hasty: SessionFixture,
) -> None:
    await hasty.open(subscriber="driver")
    hasty.store.leaves = True
    with pytest.raises(StoreUnavailableError):
        await hasty.say(hasty.event("root", "bye"), outcome=p.Finished(agent="root"), selected="root")
    hasty.store.away = hasty.store.leaves = False
    await hasty.ref.ask(p.AnnounceRunner(runner="runner-2", number=0))
    listed = await hasty.ref.ask(p.ListOpenTurns(app=KEY.app, runner="runner-2"))
    assert listed == p.OpenTurnsReply(turns=[])
    async with asyncio.timeout(5):
        assert (await hasty.news("driver"))[1:] == ([(2, "bye")], ["Finished"])
    assert isinstance(await hasty.ask_to_open("e-2", runner="runner-2"), p.TurnBegun)
