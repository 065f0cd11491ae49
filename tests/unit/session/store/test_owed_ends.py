"""Turns that have ended, and whose ends the store does not know yet: they are listed, counted and answered as what they are."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StoreError
from actors.interfaces.records import TurnFilter, TurnRow
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.session.log.reader import with_ends
from tests.support.fixtures.session_fixture import KEY, SessionFixture
from tests.support.tries import tries

KEYS = [SessionKey("app", "ada", name) for name in ("s1", "s2")]


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
    for asked in (p.ListPending(app="app"), p.ListPending(app="app", user=KEY.user, session=KEY.session)):
        assert [call.call_id for call in (await session.ref.list_pending(asked)).calls] == ["c1"]
    [listed] = await session.ref.list_turns(p.ListTurns(app="app", state="paused"))
    assert listed.state == "paused"
    assert await session.ref.list_turns(p.ListTurns(app="app", state="running")) == []
    counts = await session.ref.count_turns("app")
    assert (counts.running, counts.paused) == (0, 1)


async def test_a_turn_that_was_answered_before_the_store_knew_of_its_pause_runs_and_ends(session: SessionFixture) -> None:
    await paused(session)
    begun = await session.answer("e-1", "c1")
    assert isinstance(begun, p.TurnBegun)
    [listed] = await session.ref.list_turns(p.ListTurns(app="app"))
    assert (listed.state, listed.epoch) == ("running", 2)
    assert (await session.ref.list_pending(p.ListPending(app="app"))).calls == []
    await session.close(epoch=2)
    [listed] = await session.ref.list_turns(p.ListTurns(app="app"))
    assert (listed.state, listed.epoch) == ("finished", 2)


ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 4), st.sampled_from(["running", "running", "paused", "finished"])), max_size=8
)


@settings(max_examples=tries(200))
@given(
    ROWS,
    st.sets(st.integers(0, 7)),
    st.sampled_from(["paused", "finished"]),
    st.sampled_from(["", "running", "paused", "finished"]),
    st.integers(1, 5),
    st.none() | st.tuples(st.integers(0, 4).map(float), st.just("e-3")),
)
def test_a_list_of_turns_is_what_it_is_when_their_ends_are_stored(
    made: list[tuple[SessionKey, int, str]],
    ended: set[int],
    how: str,
    status: str,
    limit: int,
    before: tuple[float, str] | None,
) -> None:
    rows = [
        (key, TurnRow(invocation_id=f"e-{n}", status=state, epoch=1, first_seq=1, opened_seq=1, begun_s=float(begun_s)))
        for n, (key, begun_s, state) in enumerate(made)
    ]
    owed = [
        (key, msgspec.structs.replace(row, status=how))
        for n, (key, row) in enumerate(rows)
        if n in ended and row.status == "running"
    ]
    ends = {row.invocation_id: (key, row) for key, row in owed}
    wanted = TurnFilter(app="app", status=status, limit=limit, before=before)
    of_store = listed(rows, msgspec.structs.replace(wanted, limit=limit + len(owed)))
    assert with_ends(of_store, owed, wanted) == listed([ends.get(row.invocation_id, (key, row)) for key, row in rows], wanted)


def listed(rows: list[tuple[SessionKey, TurnRow]], wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
    """What a store lists."""
    found = [
        (key, row)
        for key, row in rows
        if wanted.status in ("", row.status) and (wanted.before is None or (row.begun_s, row.invocation_id) < wanted.before)
    ]
    return sorted(found, key=lambda each: (each[1].begun_s, each[1].invocation_id), reverse=True)[: wanted.limit]
