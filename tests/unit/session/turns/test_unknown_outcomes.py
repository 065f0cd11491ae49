"""A commit that opens a turn, and of which nobody knows whether it was made: no turn stays open that no Runner has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.stores import Write
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from tests.support.fixtures.session_fixture import KEY, SessionFixture

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
