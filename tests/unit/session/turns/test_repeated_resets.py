"""A request to run a turn again, maybe from a step: sent again since its reply was lost, and what the turn is left with."""

from __future__ import annotations

import msgspec
import pytest

from actors import Event
from actors.layers.retries import RetryTurn
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
