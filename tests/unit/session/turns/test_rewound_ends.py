"""A turn that goes on after another one has spoken, when the session is rewound to before that one: it is as it was then."""

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
from tests.support.fixtures.session_fixture import KEY, SessionFixture

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
