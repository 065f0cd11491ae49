"""How often runs were lost is in the record of their turn: no actor that is lost as well begins the count anew."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from actors.errors import StoreError
from actors.layers.listing.client import get_turn
from actors.messages import protocol as p
from actors.messages.graph import NodeInfo
from tests.support.fixtures.session_fixture import KEY, SessionFixture

_numbers = itertools.count()


async def resumed(session: SessionFixture) -> p.TurnProgress:
    """What a Runner is given that takes the turn over from one that was lost."""
    runner = f"runner/{next(_numbers)}"
    refusal = await session.ref.ask(p.AnnounceRunner(runner=runner, number=0))
    if isinstance(refusal, p.NotLeader):
        await session.ref.ask(p.AnnounceRunner(runner=runner, number=refusal.number))
    reply = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=runner))
    assert isinstance(reply, p.TurnResumed)
    return reply.progress


async def test_an_attempt_alone_is_stored_before_it_begins_and_once(session: SessionFixture) -> None:
    await session.open()
    for attempt in (1, 1, 2):
        await session.ref.ask(p.BeginAlone(turn=session.turn_ref(), run="root", attempt=attempt))
    session = await session.restarted()
    lost = (await resumed(session)).losses["root"]
    assert (lost.alone, lost.begun_s > 0) == (2, True)


async def test_what_was_lost_alone_and_with_others_is_counted_apart(session: SessionFixture) -> None:
    await session.open()
    ref = session.turn_ref()
    await session.ref.ask(p.AbandonRuns(turn=ref, lost=(1,), run="root", times=1))
    await session.ref.ask(p.BeginAlone(turn=ref, run="root", attempt=1))
    progress = await session.ref.ask(p.AbandonRuns(turn=ref, lost=(2,), run="root", times=2))
    assert (progress.losses["root"].times, progress.losses["root"].own) == (2, 1)


async def test_the_loss_of_a_runner_counts_for_runs_with_calls_under_way_and_for_the_turn(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    progress = await resumed(session)
    assert list(progress.under_way) == ["root"]
    assert {run: (lost.times, lost.with_runner) for run, lost in progress.losses.items()} == {"root": (1, True), "": (1, True)}
    session = await session.restarted()
    assert (await resumed(session)).losses[""].times == 2


@pytest.mark.parametrize("is_lost", [False, True])
async def test_an_event_of_an_agent_ends_its_own_count_and_that_of_the_runner(session: SessionFixture, is_lost: bool) -> None:
    await session.open()
    await session.say(session.event("root", "before"))
    for run in ("root", "other"):
        await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,), run=run, times=1))
    # What the agent has stored before the loss does not end it.
    session = await session.restarted() if is_lost else session
    assert times(await resumed(session)) == {"root": 1, "other": 1, "": 1}
    await session.say(session.event("root", "after"), epoch=2)
    session = await session.restarted() if is_lost else session
    assert times(await resumed(session)) == {"other": 1, "": 1}
    assert times(await resumed(session)) == {"other": 1, "": 2}


async def test_an_event_of_a_graph_about_a_node_ends_the_count_of_the_graph_alone(session: SessionFixture) -> None:
    await session.open()
    runs = ("root", "root other@1/root@1", "root root@1/node@1", "node root@1/node@1")
    for run in runs:
        await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,), run=run, times=1))
    event = msgspec.structs.replace(session.event("root", "tried again"), node_info=NodeInfo(path="root@1/node@1"))
    await session.say(event)
    assert times(await resumed(session)) == {"root other@1/root@1": 1, "node root@1/node@1": 1, "": 1}


def times(progress: p.TurnProgress) -> dict[str, int]:
    """How often each run was lost, and the Runner."""
    return {run: lost.times for run, lost in progress.losses.items()}


@pytest.mark.parametrize("fails", ["before", "behind"])
async def test_the_loss_of_a_runner_is_counted_once_also_if_the_turn_could_not_be_resumed_at_first(
    tmp_path: Path, fails: str
) -> None:
    session = SessionFixture(tmp_path, store_timeout_s=0.01)
    await session.open()
    resume = p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner/2")
    await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0))
    session.store.failures = 2 * (fails == "before")
    session.store.leaves = fails == "behind"
    with pytest.raises(StoreError):
        await session.ref.ask(resume)
    session.store.failures, session.store.leaves, session.store.away = 0, False, False
    resumed = await session.ref.ask(resume)
    assert isinstance(resumed, p.TurnResumed)
    assert resumed.progress.losses[""].times == 1
    assert len((await get_turn(session.ref, KEY, "e-1")).lost) == 1
    await session.ref.stop()


@pytest.mark.parametrize("is_lost", [False, True], ids=["reply-lost", "actor-lost"])
async def test_a_runner_that_resumes_a_turn_again_since_the_reply_was_lost_was_not_lost_itself(
    session: SessionFixture, is_lost: bool
) -> None:
    await session.open()
    await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0))
    resume = p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner/2")
    assert isinstance(await session.ref.ask(resume), p.TurnResumed)
    heir = session.heir() if is_lost else session
    resumed = await heir.ref.ask(resume)
    assert isinstance(resumed, p.TurnResumed)
    assert (resumed.epoch, resumed.progress.losses[""].times) == (3, 1)
    await heir.ref.ask(p.AnnounceRunner(runner="runner/3", number=0 if is_lost else 1))
    again = await heir.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner/3"))
    assert isinstance(again, p.TurnResumed)
    assert again.progress.losses[""].times == 2
