"""A running turn: what follows from its origin, where its runs stand in the log, and which runs are below which."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import Content
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import Event
from actors.messages.flow import FlowMark
from actors.rules.routing.branches import is_below_branch
from actors.runner.running_turn import OpeningMessage, Run, RunningTurn, numbers
from tests.support.fixtures.session_fixture import KEY, settled

ASKED = p.StoredEvent(5, b"")


def progress(**more: Any) -> p.TurnProgress:
    return p.TurnProgress(**{"first_seq": 2, "opened_seq": 5, "head_seq": 5, **more})


def turn(
    config: RunConfig | None = None, event: Event | None = None, progress: p.TurnProgress | None = None, **origin: Any
) -> RunningTurn:
    message = OpeningMessage(event or Event(), ASKED, config or RunConfig())
    return RunningTurn(p.TurnRef(KEY, "e-1", 1), "root", message, progress, **origin)


def run(agent: str, parent: Run | None = None, *, branch: str | None = None, transfer_seq: int | None = None) -> Run:
    return Run(agent, branch, ASKED, parent, transfer_seq)


@pytest.mark.parametrize(
    ("origin", "is_fresh", "has_begun", "is_resumed"),
    [
        ({}, True, False, False),
        ({"progress": progress(), "is_answer": True}, True, True, False),
        # Nothing has happened since it was opened: it is run from its beginning.
        ({"progress": progress(), "is_taken_up": True}, False, False, False),
        ({"progress": progress(head_seq=6), "is_taken_up": True}, False, True, True),
        ({"progress": progress(), "is_taken_up": True, "is_answer": True}, False, True, True),
    ],
)
def test_the_origin_says_what_is_done_already(origin: dict[str, Any], is_fresh: bool, has_begun: bool, is_resumed: bool) -> None:
    of_origin = turn(**origin)
    assert (of_origin.is_fresh, of_origin.has_begun, of_origin.is_resumed) == (is_fresh, has_begun, is_resumed)
    assert of_origin.progress == origin.get("progress")


def test_a_turn_of_a_flow_names_its_definition_and_content_may_be_missing() -> None:
    assert turn(event=Event(flow=FlowMark(run="plan"))).message.flow == "plan"
    assert (turn().message.flow, turn().message.content) == ("", Content())


def test_a_run_stands_after_the_message_or_the_transfer_or_where_its_supervisor_began_it() -> None:
    begun = turn()
    supervisor = run("flow")
    assert begun.after_seq(supervisor) == 5
    assert begun.after_seq(run("a", supervisor)) == 5
    assert begun.after_seq(run("b", supervisor, transfer_seq=9)) == 9
    begun.apply_progress(progress(agent_states={"flow": (7, {"child": "a"})}), 0)
    assert begun.after_seq(supervisor) == 2
    assert begun.after_seq(run("a", supervisor)) == 7
    assert begun.after_seq(run("b", supervisor)) == 2
    assert begun.agent_state(supervisor, 2) == (7, {"child": "a"})
    assert begun.agent_state(supervisor, 7) == (0, {})


def test_a_run_has_ended_with_the_first_transfer_after_its_beginning() -> None:
    transfers = (
        p.TransferRecord(6, None, "root", "a"),
        p.TransferRecord(8, None, "a", "root"),
        p.TransferRecord(9, None, "root", "b"),
    )
    resumed = turn(progress=progress(transfers=transfers, head_seq=9), is_taken_up=True)
    at = run("root")
    reached = []
    while (record := resumed.recorded_transfer(at)) is not None:
        at = at.transferred(record.to, record.seq)
        reached.append(at.agent)
    assert reached == ["a", "root", "b"]
    assert turn().recorded_transfer(run("root")) is None


def transfer(*seqs: int, at: int = 0) -> p.Transfer:
    return p.Transfer(to="a", seq=at or seqs[-1], events=[p.StoredEvent(seq, b"") for seq in seqs])


def test_a_turn_follows_the_log_through_its_transfers() -> None:
    begun = turn()
    for seqs in ((6, 7), (8,)):
        begun.is_fresh = False
        begun.follow(transfer(*seqs))
        assert begun.is_fresh
    assert [stored.seq for stored in begun.after] == [6, 7, 8]


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        pytest.param({}, p.Transfer(to="a", seq=7), id="too much to travel along"),
        pytest.param({}, transfer(7, 8), id="something before it"),
        pytest.param({}, transfer(6, 8), id="something between"),
        pytest.param({}, transfer(6, at=7), id="something before the transfer"),
        pytest.param({"progress": progress(head_seq=6), "is_taken_up": True}, transfer(6, 7), id="a state that is not known"),
    ],
)
def test_what_is_not_all_of_the_log_is_not_followed(origin: dict[str, Any], told: p.Transfer) -> None:
    begun = turn(**origin)
    begun.is_fresh = False
    begun.follow(told)
    assert (begun.is_fresh, list(begun.after)) == (False, [])


def test_a_caller_is_reached_once() -> None:
    answered = turn(progress=progress(), is_answer=True)
    answered.callers = ["a", "b"]
    assert [answered.reach(agent) for agent in ("c", "a", "a")] == [False, True, False]
    assert answered.callers == ["b"]


def test_a_repeated_run_is_the_same_but_for_its_number() -> None:
    runs = turn().runs
    parent = run("flow")
    first = run("a", parent, branch="x", transfer_seq=3)
    runs.begin_run(parent)
    runs.begin_run(first)
    again = first.repeated()
    runs.end_runs([first])
    runs.begin_run(again)
    assert (again.agent, again.branch, again.user_event, again.parent, again.transfer_seq) == ("a", "x", ASKED, parent, 3)
    assert numbers([parent, first, again]) == (1, 2, 3)
    assert (runs.get(1), runs.get(2), runs.get(3)) == (parent, None, again)


def test_the_runs_below_one_are_found_and_those_on_its_branches() -> None:
    runs = turn().runs
    top, left, right = run("top"), run("left", branch="p.left"), run("right", branch="p.right")
    below = run("below", left, branch="p.left")
    for each in (top, left, right, below):
        runs.begin_run(each)
    assert runs.which(lambda each: each.is_below(left)) == [left, below]
    assert runs.which(lambda each: is_below_branch(each.branch, "p.left")) == [left, below]
    assert runs.which(lambda each: is_below_branch(each.branch, "p")) == [left, right, below]
    assert runs.all() == [top, left, right, below]


def test_what_serves_a_request_is_found_through_transfers_and_by_the_name_that_was_asked_for() -> None:
    runs = turn().runs
    top = run("top")
    asked = Run("a", None, ASKED, top, asked="a")
    moved = asked.transferred("b", 4)
    below, other = Run("c", None, ASKED, moved, asked="c"), Run("d", None, ASKED, top, asked="d")
    for each in (top, asked, moved, below, other, moved.repeated()):
        runs.begin_run(each)
    assert [each.agent for each in runs.which(lambda run: run.serves(top, "a"))] == ["a", "b", "c", "b"]
    assert [each.agent for each in runs.which(lambda run: run.serves(moved, "c"))] == ["c"]
    assert runs.which(lambda run: run.serves(top, "b")) == []


async def test_waiting_ends_for_a_branch_or_below_a_run_or_altogether() -> None:
    runs = turn().runs
    top = run("top")
    below = run("below", top)

    async def for_ever() -> p.AnyOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    async def waits(branch: str | None, parent: Run, asked: str) -> None:
        task = asyncio.create_task(for_ever())
        with runs.waiting(task, Run(asked, branch, ASKED, parent, asked=asked)):
            await asyncio.wait([task])

    waiting = (("p.a", top, "left"), (None, top, "late"), (None, below, "deep"), (None, run("other"), "late"))
    on_branch, late, under, other = (asyncio.create_task(waits(*each)) for each in waiting)
    await settled()
    runs.stop_waiting(lambda asked: is_below_branch(asked.branch, "p"))
    await on_branch
    runs.stop_waiting(lambda asked: asked.serves(top, "late"))
    await late
    assert not under.done()
    runs.stop_waiting(lambda asked: asked.is_below(top))
    await under
    assert not other.done()
    runs.stop_waiting(lambda asked: True)
    await other
