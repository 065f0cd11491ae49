"""The time that a turn has: an answer and a retry begin it anew, and the loss of a Runner or a Session actor does not."""

from __future__ import annotations

import pytest

from actors import RunConfig
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from tests.support.fixtures.session_fixture import KEY, SessionFixture

TIMED = RunConfig(timeout=1_000)


async def deadline_s(session: SessionFixture, epoch: int) -> float:
    """When the time of the turn is over, as a Runner learns that takes it over."""
    reply = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert isinstance(reply, p.TurnResumed)
    assert reply.epoch == epoch
    return reply.progress.deadline_s


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("goes_on", ["answer", "retry", "retry from an event"])
async def test_what_a_user_does_begins_the_time_of_a_turn_anew_and_no_loss_does(
    session: SessionFixture, goes_on: str, is_lost: bool
) -> None:
    await session.open(config=TIMED)
    first_s = await deadline_s(session, epoch=2)
    await session.say(session.event("root", call="c1"), epoch=2)
    ended = p.Paused(agent="root", call_ids=("c1",)) if goes_on == "answer" else p.Failed(agent="root", error_code="E")
    await session.close(outcome=ended, epoch=2)
    actor = await session.restarted() if is_lost else session
    if goes_on == "answer":
        assert isinstance(await actor.answer("e-1", "c1", config=TIMED), p.TurnBegun)
    else:
        from_event = "e-1-user-1" if goes_on == "retry from an event" else ""
        await actor.ref.ask(RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event=from_event, request="r"))
    second_s = await deadline_s(actor, epoch=4)
    assert second_s > first_s
    heir = await actor.restarted()
    assert await deadline_s(heir, epoch=5) == second_s
    await heir.ref.stop()
