"""While a message is being stored its turn may begin: who writes to it, or reads, comes after the message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.errors import FencedError, StoreError
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled, state_of


async def begun_early(session: SessionFixture, **state: int) -> tuple[p.TurnBegun, asyncio.Task[p.OpenTurnReply], HeldCommits]:
    """How a turn begins, the request that waits for its message to be stored, and what holds that up."""
    held = HeldCommits(session.store)
    early: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    event = session.event("user", "hi", turn="e-2", state_delta=state)
    message = p.OpenTurn(key=KEY, invocation_id="e-2", event=encode(event), runner="runner", subscriber="d")
    opening = asyncio.create_task(session.ref.open_turn(message, early.set_result))
    return await early, opening, held


@pytest.fixture
async def told(session: SessionFixture) -> None:
    """A session with a turn that is over."""
    await session.turn("e-1", "one")


@pytest.mark.usefixtures("told")
async def test_the_early_reply_is_the_last_one(session: SessionFixture) -> None:
    early, opening, held = await begun_early(session, **{"user:u": 2})
    assert (early.epoch, early.seq, state_of(early)) == (1, 3, {"user:u": 2})
    assert session.positions() == [1, 2]
    held.let_go()
    assert await opening == early
    assert session.positions() == [1, 2, 3]


@pytest.mark.usefixtures("told")
async def test_what_is_told_and_read_meanwhile_comes_after_the_message(session: SessionFixture) -> None:
    early, opening, held = await begun_early(session)
    ref = p.TurnRef(KEY, "e-2", early.epoch, generation=early.generation)
    answer = session.event("root", "two", turn="e-2")
    partial = p.TellPartial(turn=ref, events=[encode(answer)], first=0)
    partials = asyncio.create_task(session.ref.tell_partial(partial))
    reading = asyncio.create_task(session.ref.fetch(p.Fetch(key=KEY, after_seq=2, generation=early.generation)))
    before = await session.ref.fetch(p.Fetch(key=KEY, before_seq=early.seq, generation=early.generation))
    assert [stored.seq for stored in before.events] == [1, 2]
    assert not before.more
    await settled()
    assert not any(task.done() for task in (opening, partials, reading))
    held.let_go()
    await partials
    assert decode_event((await reading).events[0].raw, 3).text == "hi"
    assert (await session.ref.fetch(p.Fetch(key=KEY, before_seq=early.seq, generation=early.generation))).events == before.events
    assert (await session.ref.append(p.Append(turn=ref, events=[encode(answer)]))).first_seq == 4
    assert (await session.news("d"))[1] == [(0, "two"), (4, "two")]


@pytest.mark.usefixtures("told")
async def test_what_is_written_meanwhile_is_stored_behind_the_message(session: SessionFixture) -> None:
    early, opening, held = await begun_early(session)
    ref = p.TurnRef(KEY, "e-2", early.epoch, generation=early.generation)
    answer = session.event("root", "two", turn="e-2")
    append = p.Append(turn=ref, events=[encode(answer)], selected="root", outcome=p.Finished(agent="root"))
    partials = asyncio.create_task(session.ref.tell_partial(p.TellPartial(turn=ref, events=[encode(answer)], first=0)))
    writing = asyncio.create_task(session.ref.append(append))
    await settled()
    assert not writing.done()
    held.let_go()
    # The turn ends with what was sent behind the partial, which is told before that.
    assert isinstance(await partials, p.Ack)
    assert (await writing).first_seq == 4
    assert await opening == early
    assert session.positions() == [1, 2, 3, 4]
    assert (await session.news("d"))[1:] == ([(0, "two"), (4, "two")], ["Finished"])


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("state", [{}, {"user:u": 2}], ids=["without-a-task", "with-a-task"])
async def test_nothing_is_written_without_the_message(session: SessionFixture, state: dict[str, int]) -> None:
    early, opening, held = await begun_early(session, **state)
    ref = p.TurnRef(KEY, "e-2", early.epoch, generation=early.generation)
    answer = encode(session.event("root", "two", turn="e-2"))
    writing = asyncio.create_task(session.ref.append(p.Append(turn=ref, events=[answer])))
    partials = asyncio.create_task(session.ref.tell_partial(p.TellPartial(turn=ref, events=[answer], first=0)))
    await settled()
    session.store.failures = 10
    held.let_go()
    for refused in (opening, writing, partials):
        with pytest.raises(StoreError, match="disk is full"):
            await refused
    session.store.failures = 0
    with pytest.raises(FencedError):
        await session.ref.append(p.Append(turn=ref, events=[answer]))
    assert session.positions() == [1, 2]
    assert await session.state() == {}
