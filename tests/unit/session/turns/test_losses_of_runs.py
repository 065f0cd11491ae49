"""How often runs were lost is in the record of their turn: no actor that is lost as well begins the count anew."""

from __future__ import annotations

from actors.messages import protocol as p
from tests.support.fixtures.session_fixture import KEY, SessionFixture


async def resumed(session: SessionFixture) -> p.TurnProgress:
    """What a Runner is given that takes the turn over."""
    reply = await session.ref.resume_turn(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert isinstance(reply, p.TurnResumed)
    return reply.progress


async def test_an_attempt_alone_is_stored_before_it_begins_and_once(session: SessionFixture) -> None:
    await session.open()
    for attempt in (1, 1, 2):
        await session.ref.begin_alone(p.BeginAlone(turn=session.turn_ref(), run="root", attempt=attempt))
    session = await session.restarted()
    lost = (await resumed(session)).losses["root"]
    assert (lost.alone, lost.begun_s > 0) == (2, True)


async def test_what_was_lost_alone_and_with_others_is_counted_apart(session: SessionFixture) -> None:
    await session.open()
    ref = session.turn_ref()
    await session.ref.abandon_runs(p.AbandonRuns(turn=ref, lost=(1,), run="root", times=1))
    await session.ref.begin_alone(p.BeginAlone(turn=ref, run="root", attempt=1))
    progress = await session.ref.abandon_runs(p.AbandonRuns(turn=ref, lost=(2,), run="root", times=2))
    assert (progress.losses["root"].times, progress.losses["root"].own) == (2, 1)


async def test_the_loss_of_a_runner_counts_for_runs_with_calls_under_way_and_for_the_turn(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    progress = await resumed(session)
    assert list(progress.under_way) == ["root"]
    assert {run: (lost.times, lost.with_runner) for run, lost in progress.losses.items()} == {"root": (1, True), "": (1, True)}
    session = await session.restarted()
    assert (await resumed(session)).losses[""].times == 2


async def test_an_event_of_the_agent_ends_the_count_also_for_a_session_actor_that_was_started_again(
    session: SessionFixture,
) -> None:
    await session.open()
    await session.say(session.event("root", "before"))
    for run in ("root", "other"):
        await session.ref.abandon_runs(p.AbandonRuns(turn=session.turn_ref(), lost=(1,), run=run, times=1))
    # What the agent has stored before the loss does not end it.
    session = await session.restarted()
    assert set((await resumed(session)).losses) == {"root", "other", ""}
    await session.say(session.event("root", "after"), epoch=2)
    session = await session.restarted()
    assert set((await resumed(session)).losses) == {"other", ""}
