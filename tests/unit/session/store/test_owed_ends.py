"""Turns that have ended, and whose ends the store does not know yet: they are listed, counted and answered as what they are."""

from __future__ import annotations

import msgspec
import pytest

from actors.errors import StoreError, StoreUnavailableError
from actors.layers.listing.client import count_turns, list_turns
from actors.layers.listing.messages import ListPending, ListTurns
from actors.messages import protocol as p
from tests.support.fixtures.session_fixture import KEY, SessionFixture


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
