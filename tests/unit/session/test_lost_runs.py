"""Runs that were lost: what they have sent, how often they were lost, their notes, and the time that their turn has left."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import RunConfig
from actors.errors import FencedError, StoreError
from actors.interfaces.stores import TurnRow
from actors.layers.listing.client import get_turn
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import Event, decode_event
from actors.messages.graph import NodeInfo
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from tests.support.fixtures.session_fixture import KEY, FailingStore, HeldCommits, SessionFixture, settled

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


MAX_LOST = 50
"""Lost processes that the record of a turn names."""

MAX_REASON = 200
"""Characters of the reason of one."""


async def test_a_turn_is_told_to_be_as_far_as_what_its_lost_runs_have_sent_once_that_is_on_disk(session: SessionFixture) -> None:
    await session.open()
    held = HeldCommits(session.store)
    append = p.Append(turn=session.turn_ref(run=1), events=[encode(session.event("root", "one"))])
    sent = asyncio.create_task(session.ref.ask(append))
    await settled()
    abandoned = asyncio.create_task(session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,))))
    done, _ = await asyncio.wait([abandoned], timeout=0.05)
    held.let_go()
    assert done == set()
    assert (await abandoned).head_seq == (await sent).first_seq == 2


async def test_a_run_of_the_next_epoch_writes_under_the_number_of_one_that_was_lost(session: SessionFixture) -> None:
    await session.open()
    await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert isinstance(resumed, p.TurnResumed)
    append = p.Append(turn=session.turn_ref(epoch=2, run=1), events=[encode(session.event("root", "one"))])
    assert (await session.ref.ask(append)).first_seq == 2


async def test_an_answer_that_is_sent_again_is_joined(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(call_ids=("c1",)))
    before = session._events
    assert isinstance(await session.answer("e-1", "c1"), p.TurnBegun)
    await session.close(epoch=2)
    # Its first reply was lost: the same event comes once more.
    session._events = before
    assert await session.answer("e-1", "c1", repeatable=True) == p.TurnJoined(invocation_id="e-1", seq=3, agent="root")


async def where(session: SessionFixture) -> TurnInfo:
    return await get_turn(session.ref, KEY, "e-1")


ENDS: dict[str, p.AnyOutcome] = {
    "finished": p.Finished(agent="root"),
    "failed": p.Failed(agent="root", error_code="E"),
    "cancelled": p.Cancelled(),
}


@pytest.mark.parametrize("state", ENDS)
async def test_what_was_lost_stays_with_a_turn_that_has_ended(session: SessionFixture, state: str) -> None:
    await session.open()
    for times in (1, 1, 2):
        reason = "killed" * MAX_REASON
        lost = p.AbandonRuns(turn=session.turn_ref(), lost=(times,), run="root", times=times, agent="root", reason=reason)
        await session.ref.ask(lost)
    assert [each.agent for each in (await where(session)).lost] == ["root", "root"]
    await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0))
    await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner/2"))
    await session.close(epoch=2, outcome=ENDS[state])
    session = await session.restarted()
    turn = await where(session)
    assert (turn.state, [each.agent for each in turn.lost]) == (state, ["root", "root", ""])
    assert turn.begun_s <= turn.lost[0].lost_s <= turn.lost[-1].lost_s <= turn.ended_s
    assert len(turn.lost[0].reason) == MAX_REASON


async def test_a_pause_keeps_what_was_lost_and_a_turn_without_losses_has_nothing_more_in_its_record(
    session: SessionFixture,
) -> None:
    await session.open()
    for times in range(1, MAX_LOST + 5):
        await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,), run="root", times=times, agent="root"))
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(call_ids=("c1",)))
    assert isinstance(await session.answer("e-1", "c1"), p.TurnBegun)
    again = p.AbandonRuns(turn=session.turn_ref(epoch=2), lost=(1,), run="root", times=1, agent="root", reason="the newest")
    await session.ref.ask(again)
    await session.close(epoch=2)
    lost = (await where(session)).lost
    assert (len(lost), lost[-1].reason) == (MAX_LOST, "the newest")
    await session.open(turn="e-2")
    await session.close(turn="e-2")
    row = session.store.turn(KEY, "e-2")
    assert row is not None
    assert row.temp == b""


def note(session: SessionFixture, run: int, **state: Any) -> tuple[p.Note, Event]:
    event = session.event("root", agent_state=state or {"child": "a"})
    return p.Note(run, encode(event)), event


async def authors(session: SessionFixture) -> list[str]:
    found = (await session.ref.ask(p.GetSessionRequest(key=KEY))).session
    assert found is not None
    events = [decode_event(stored.raw, stored.seq) for stored in found.events]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.author for event in events]


async def test_a_note_that_is_missing_is_stored_before_what_brings_it_and_once(session: SessionFixture) -> None:
    await session.open()
    brought, event = note(session, run=1)
    said = [encode(session.event("a", "one"))]
    append = p.Append(turn=session.turn_ref(run=2), events=said, notes=[brought])
    assert (await session.ref.ask(append)).first_seq == 3
    # Sent again, because the reply was lost; and the note that the supervisor sends itself.
    assert (await session.ref.ask(append)).first_seq == 3
    assert await session.say(event) == 2
    assert await session.say(session.event("a", "two"), notes=[brought]) == 4
    assert await authors(session) == ["user", "root", "a", "a"]


async def test_what_an_abandoned_supervisor_has_asked_for_writes_nothing(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1)
    await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    with pytest.raises(FencedError):
        await session.say(session.event("a", "one"), notes=[brought])
    assert await authors(session) == ["user"]


async def test_giving_up_a_run_stores_the_note_of_its_beginning(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1, iteration=1, child="a")
    for _ in range(2):
        progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(2,), notes=[brought]))
        assert progress.agent_states == {"root": (2, {"iteration": 1, "child": "a"})}
    assert await authors(session) == ["user", "root"]


async def test_the_note_of_a_supervisor_that_is_given_up_too_is_not_stored(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1)
    progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(2,), notes=[brought]))
    assert progress.agent_states == {}
    assert await authors(session) == ["user"]


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


LOST, NEXT = "runner/1", "runner/2"


class SlowLists(FailingStore):
    """Lists open turns as they are when it is asked, and says so when it may."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked, self.may_reply = threading.Event(), threading.Event()

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        found = super().running(app)
        self.is_asked.set()
        self.may_reply.wait(20)
        return found


async def test_a_turn_is_lost_until_it_is_stored_that_it_is_resumed(tmp_path: Path) -> None:
    # Of two requests that recover turns neither may end before the other has stored that it goes on with them.
    session = SessionFixture(tmp_path, store=SlowLists)
    assert isinstance(session.store, SlowLists)
    await session.open("e-1", runner=LOST)
    await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0))
    listing = asyncio.create_task(session.ref.ask(p.ListOpenTurns(app=KEY.app, runner=NEXT)))
    await asyncio.to_thread(session.store.is_asked.wait, 20)
    resuming = asyncio.create_task(session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=NEXT)))
    await settled()
    session.store.may_reply.set()
    reply = await listing
    assert isinstance(reply, p.OpenTurnsReply)
    assert list(reply.turns) == [(KEY, "e-1")]
    assert isinstance(await resuming, p.TurnResumed)
    await session.ref.stop()
