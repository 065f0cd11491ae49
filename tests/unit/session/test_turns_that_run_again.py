"""Turns that go on after their end: sent again, with what they had used, and taken back by a rewind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from actors import Event
from actors.layers.listing.client import get_turn
from actors.layers.retries import RetryTurn
from actors.layers.rewinds import RewindRequest
from actors.layers.spending.messages import GetUsage
from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.fixtures.session_fixture import KEY, SessionFixture


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_one_that_is_sent_again_when_the_turn_has_ended_once_more_takes_nothing_back_twice(
    session: SessionFixture, is_restarted: bool
) -> None:
    await session.turn("e-1", "kept", "taken back")
    retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event="e-1-root-2", request="the request")
    resumed = await session.ref.ask(retry)
    assert isinstance(resumed, p.TurnResumed)
    turn = p.TurnRef(KEY, "e-1", resumed.epoch, generation=resumed.generation)
    await session.ref.ask(p.Append(turn=turn, events=[encode(session.event("root", "said again"))]))
    await session.ref.ask(p.CloseTurn(turn=turn, agent="root", outcome=p.Finished(agent="root")))
    if is_restarted:
        session = await session.restarted()
    assert await session.ref.ask(retry) == p.Ack()
    assert [text for _, _, text in await session.log()] == ["e-1?", "kept", "", "said again"]
    assert isinstance(await session.ref.ask(msgspec.structs.replace(retry, request="another request")), p.TurnResumed)
    assert [text for _, _, text in await session.log()] == ["e-1?", "kept", ""]


@pytest.mark.parametrize("outcome", [p.Finished(agent="root"), p.Failed(agent="root", error_code="E")], ids=["ends", "fails"])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_retry_that_is_sent_again_when_the_turn_has_ended_once_more_runs_it_no_second_time(
    session: SessionFixture, is_restarted: bool, outcome: p.AnyOutcome
) -> None:
    await session.open()
    await session.close(outcome=p.Failed(agent="root", error_code="E"))
    retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", request="the request")
    assert isinstance(await session.ref.ask(retry), p.TurnResumed)
    await session.close(epoch=2, outcome=outcome)
    if is_restarted:
        session = await session.restarted()
    assert await session.ref.ask(retry) == p.Ack()


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_turn_that_runs_again_has_used_what_it_had_and_has_lost_nothing(
    session: SessionFixture, is_restarted: bool
) -> None:
    def said(text: str) -> Event:
        return msgspec.structs.replace(session.event("root", text), model_version="m")

    failed = p.Failed(agent="root", error_code="E")
    await session.open()
    await session.say(said("kept"), said("taken back"))
    await session.close(outcome=failed)
    await session.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(epoch=2), lost=(1,), run="root", times=1))
    await session.close(outcome=failed, epoch=2)
    for number, epoch in enumerate((3, 4)):
        session = await session.restarted() if is_restarted else session
        retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event="e-1-root-2", request=f"request {number}")
        resumed = await session.ref.ask(retry)
        assert isinstance(resumed, p.TurnResumed)
        assert (resumed.epoch, resumed.progress.head_seq, resumed.progress.retried_seq, resumed.progress.losses) == (
            epoch,
            2,
            2,
            {},
        )
        turn = p.TurnRef(KEY, "e-1", epoch, generation=resumed.generation)
        await session.ref.ask(p.Append(turn=turn, events=[encode(said("said again"))]))
        await session.ref.ask(p.CloseTurn(turn=turn, agent="root", outcome=failed))
        used = (await session.ref.ask(GetUsage(app=KEY.app, user=KEY.user))).report
        assert used.total.llm_calls == 3 + number


FAILED = p.Failed(agent="root", error_code="E")
PAUSED = p.Paused(agent="root", call_ids=("c1",))


def said(session: SessionFixture, text: str) -> Event:
    return msgspec.structs.replace(session.event("root", text), model_version="m")


def asks(session: SessionFixture) -> Event:
    return msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",), model_version="m")


async def retried(session: SessionFixture, epoch: int) -> None:
    await session.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await session.say(said(session, "again"), epoch=epoch)
    await session.close(epoch=epoch)


async def silent(session: SessionFixture, epoch: int) -> None:
    await session.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await session.close(epoch=epoch)


async def answered(session: SessionFixture, epoch: int) -> None:
    assert isinstance(await session.answer("e-1", "c1"), p.TurnBegun)
    await session.say(said(session, "again"), epoch=epoch)
    await session.close(epoch=epoch)


async def cancelled(session: SessionFixture, epoch: int) -> None:
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-1", runner="runner"))


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("outcome", "go_on"),
    [(FAILED, retried), (FAILED, silent), (PAUSED, answered), (PAUSED, cancelled)],
    ids=["retried", "retried without an event", "answered", "cancelled"],
)
async def test_it_is_as_before_and_goes_on_as_then(
    session: SessionFixture, outcome: p.AnyOutcome, go_on: Callable[[SessionFixture, int], Awaitable[None]], is_restarted: bool
) -> None:
    await session.open()
    await session.say(asks(session))
    await session.close(outcome=outcome)
    before = await get_turn(session.ref, KEY, "e-1")
    for number in (1, 2):
        await session.turn(f"e-2{number}", "others speak")
        await go_on(session, before.epoch + number)
        assert (await get_turn(session.ref, KEY, "e-1")).state != before.state
        session = await session.restarted() if is_restarted else session
        await session.ref.ask(RewindRequest(key=KEY, invocation_id=f"e-2{number}"))
        now = await get_turn(session.ref, KEY, "e-1")
        assert (now.state, now.last_seq, now.ended_s, now.agent) == (before.state, before.last_seq, before.ended_s, before.agent)
        session._generations[KEY] = (await session.ref.ask(p.Fetch(key=KEY))).generation
    used = (await session.ref.ask(GetUsage(app=KEY.app, user=KEY.user))).report
    assert used.total.llm_calls == (1 if go_on in (silent, cancelled) else 3)


async def test_one_that_went_on_several_times_is_as_it_was_before_the_turn_that_is_rewound(session: SessionFixture) -> None:
    await session.open()
    await session.say(asks(session))
    await session.close(outcome=FAILED)
    await session.turn("e-2", "others speak")
    await session.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
    await session.say(said(session, "tried again"), epoch=2)
    await session.close(epoch=2, outcome=PAUSED)
    await session.turn("e-3", "others speak")
    await answered(session, 3)
    await session.turn("e-4", "others speak")
    states = []
    for turn in ("e-4", "e-3", "e-2"):
        await session.ref.ask(RewindRequest(key=KEY, invocation_id=turn))
        states.append((await get_turn(session.ref, KEY, "e-1")).state)
    assert states == ["finished", "paused", "failed"]


async def test_retries_without_an_event_are_taken_back_one_by_one(session: SessionFixture) -> None:
    await session.open()
    await session.close(outcome=p.Failed(agent="root", error_code="E1"))
    epoch, errors = 1, []
    for number in (2, 3):
        await session.turn(f"e-{number}", "others speak")
        for attempt in (1, 2):
            await session.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner"))
            epoch += 1
            await session.close(epoch=epoch, outcome=p.Failed(agent="root", error_code=f"E{number}.{attempt}"))
    for number in (3, 2):
        errors.append((await get_turn(session.ref, KEY, "e-1")).error)
        await session.ref.ask(RewindRequest(key=KEY, invocation_id=f"e-{number}"))
    errors.append((await get_turn(session.ref, KEY, "e-1")).error)
    assert errors == ["E3.2: ", "E2.2: ", "E1: "]
