"""The Session actor: one writer, one log without gaps, one turn at a time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors import Content, RunConfig
from actors.errors import (
    FencedError,
    InvocationNotFoundError,
    SessionNotFoundError,
)
from actors.layers.listing.client import get_turn
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event
from tests.support.fixtures.log_events import resp
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled


async def test_a_session_is_made_by_its_first_turn_only_if_that_is_wanted(session: SessionFixture) -> None:
    raw = encode(session.event("user", "hi"))
    with pytest.raises(SessionNotFoundError, match="'s1' of user 'ada'"):
        await session.ref.open_turn(p.OpenTurn(key=KEY, invocation_id="e-1", event=raw))
    with pytest.raises(SessionNotFoundError):
        await session.ref.ask(p.FindTurn(key=KEY))
    assert (await session.ref.ask(p.FindTurn(key=KEY, auto_create=True))).authors == ()
    assert (await session.ref.ask(p.GetSessionRequest(key=KEY))).session is None


@pytest.mark.parametrize("removed", [RewindRequest(key=KEY, invocation_id="e-1"), p.DeleteSessionRequest(key=KEY)])
async def test_nothing_is_written_to_a_turn_that_has_the_id_of_one_that_was_removed(
    session: SessionFixture, removed: RewindRequest | p.DeleteSessionRequest
) -> None:
    await session.open()
    before = session.turn_ref()
    await session.close()
    if isinstance(removed, RewindRequest):
        await session.ref.ask(removed)
    else:
        await session.ref.ask(removed)
    await session.open()
    with pytest.raises(FencedError):
        await session.ref.ask(p.Append(turn=before, events=[encode(session.event("root", "late"))]))
    with pytest.raises(FencedError):
        await session.ref.ask(p.AbandonRuns(turn=before, lost=(0,)))
    with pytest.raises(FencedError):
        await session.ref.ask(p.CloseTurn(turn=before, agent="root", outcome=p.Finished()))
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner", running=before))
    assert isinstance(resumed, p.TurnResumed)
    await session.say(session.event("root", "in time"), epoch=2)


async def test_nothing_is_written_with_another_epoch_or_after_the_end(session: SessionFixture) -> None:
    await session.open()
    for epoch in (0, 2):
        with pytest.raises(FencedError, match="'e-1'"):
            await session.say(session.event("root", "late"), epoch=epoch)
        with pytest.raises(FencedError):
            await session.close(epoch=epoch)
    with pytest.raises(FencedError):
        await session.say(session.event("root", "x", turn="e-9"), turn="e-9")
    await session.close()
    with pytest.raises(FencedError):
        await session.say(session.event("root", "late"))
    with pytest.raises(FencedError):
        await session.ref.ask(p.TellPartial(turn=session.turn_ref(), events=[]))
    assert [text for _, _, text in await session.log()] == ["hi"]


async def test_one_that_interrupts_while_another_is_about_to_begin_has_to_interrupt_that(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", call="c1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c1",)))
    answering = asyncio.create_task(session.open("e-1", "yes", answers=("c1",)))
    # When this one comes, the session is taken, and there is no turn yet that could be cancelled.
    interrupting = asyncio.create_task(session.ask_to_open("e-2", config=RunConfig(on_concurrent_turn="interrupt")))
    assert await interrupting == p.CancelRequired(invocation_id="e-1")
    assert (await answering).epoch == 2


async def test_while_the_calls_of_a_cancelled_turn_are_answered_nobody_else_answers_them(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    held = HeldCommits(session.store)
    closing = asyncio.create_task(session.close(outcome=p.Cancelled(agent="root")))
    await settled()
    answering = asyncio.create_task(session.say(session.event("root", "the answer of the agent")))
    await settled()
    assert not closing.done()
    assert not answering.done()
    held.let_go()
    await closing
    with pytest.raises(FencedError):
        await answering
    assert session.positions() == [1, 2, 3]


async def test_a_cancelled_turn_answers_the_calls_that_it_leaves_open(session: SessionFixture) -> None:
    await session.open()
    answer = msgspec.structs.replace(session.event("root"), content=Content(parts=[resp("c2")]))
    await session.say(session.event("root", call="c1"), session.event("root", call="c2"), session.event("a", call="c3"), answer)
    await session.close(outcome=p.Cancelled(agent="root"))
    fetched = await session.ref.ask(p.Fetch(key=KEY))
    events = [decode_event(stored.raw, stored.seq) for stored in fetched.events[5:]]
    assert [event.seq for event in events] == [6, 7]
    assert [(event.author, event.invocation_id) for event in events] == [("root", "e-1"), ("a", "e-1")]
    answers = [answer for event in events for answer in event.function_responses()]
    assert [(answer.id, answer.name, answer.response) for answer in answers] == [
        ("c1", "f", {"error": "cancelled"}),
        ("c3", "f", {"error": "cancelled"}),
    ]


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_call_with_an_interim_response_is_not_answered_once_more_when_its_turn_is_cancelled(
    session: SessionFixture, is_paused: bool
) -> None:
    await session.open()
    call = msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",))
    interim = msgspec.structs.replace(session.event("root"), content=Content(parts=[resp("c1", "it has begun")]))
    await session.say(call, interim)
    if is_paused:
        await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert (await get_turn(session.ref, KEY, "e-1")).state == "cancelled"
    assert session.positions() == [1, 2, 3]


async def test_a_turn_that_is_not_there_is_an_invocation_that_is_not_found(session: SessionFixture) -> None:
    await session.turn("e-1")
    for turn in ("e-2", ""):
        with pytest.raises(InvocationNotFoundError):
            await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id=turn))
        with pytest.raises(InvocationNotFoundError):
            await session.ref.ask(RewindRequest(key=KEY, invocation_id=turn))


async def test_the_newest_events_are_told_and_none_with_0(session: SessionFixture) -> None:
    await session.turn("e-1", "a", "b")
    assert await session.log(num_recent_events=2) == [(2, "root", "a"), (3, "root", "b")]
    assert await session.log(num_recent_events=0) == []
    assert await session.log(after_timestamp=3.0) == [(3, "root", "b")]
