"""What a Runner knows of its turns: those it opens, runs and closes, how far the log has them, and ends still to be stored."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Content, FunctionResponse, Part
from actors.errors import ActorLostError, FencedError, NotEncodableError, RaygroveError, StoreError, StoreUnavailableError
from actors.messages import protocol as p
from actors.messages.codec import MAX_DEPTH
from actors.messages.config import RunConfig
from actors.messages.event import Event, encode_event
from actors.messages.json_types import JsonValue
from actors.refs import SessionRef
from actors.rules.backoff import Backoff
from actors.rules.checks.questions import REQUEST_CONFIRMATION
from actors.rules.checks.user_message import checked
from actors.rules.routing.branches import is_below_branch
from actors.runner.running_turn import CallAllowance, OpeningMessage, Run, RunningTurn
from actors.runner.start import NOTHING_FOUND, PreparedMessage, user_event
from actors.runner.turns import TurnCloser, TurnTable
from tests.support.fixtures.session_fixture import KEY, settled
from tests.support.tries import tries

TURN = (KEY, "e-1")


def running(epoch: int = 1, turn: str = "e-1", generation: str = "g") -> RunningTurn:
    message = OpeningMessage(Event(), p.StoredEvent(1, b""), RunConfig())
    return RunningTurn(p.TurnRef(KEY, turn, epoch, generation=generation), "root", message, None)


async def test_who_asks_for_a_turn_that_is_being_closed_waits_for_its_task() -> None:
    table, turn = TurnTable(), running()
    may_end = asyncio.Event()

    async def run() -> None:
        with table.closing(turn):
            await may_end.wait()

    table.add(turn)
    await table.closed(TURN)
    turn.task.start(run())
    await settled()
    waiting = asyncio.create_task(table.closed(TURN))
    await settled()
    assert not waiting.done()
    may_end.set()
    await waiting
    assert TURN not in table


def test_a_turn_that_runs_in_a_newer_epoch_is_over_in_the_older_one_and_stays_cancelled() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    table.add(old)
    old.task.begin_run()
    old.task.cancel()
    table.add(new)
    assert new.task.life.was_cancelled
    assert old.task.life.phase == "replaced"
    with table.closing(old):
        assert table.get(TURN) is new
    assert table.get(TURN) is new


async def test_a_turn_in_a_newer_epoch_is_alone_when_the_older_one_has_ended() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    may_end = asyncio.Event()
    table.add(old)
    old.task.start(ended(may_end))
    table.add(new)
    alone = asyncio.create_task(new.task.is_alone())
    await settled()
    assert not alone.done()
    may_end.set()
    await alone


async def ended(may_end: asyncio.Event) -> None:
    await may_end.wait()


def test_a_turn_is_not_added_in_an_epoch_that_is_over() -> None:
    async def play() -> None:
        table, new = TurnTable(), running(2)
        with table.opening(TURN):
            assert table.add(new)
            assert not table.add(running(1))
            assert not table.add(running(2))
            assert table.get(TURN) is new
            with table.closing(new):
                assert not table.add(running(2))
            assert not table.add(running(1))
            assert table.get(TURN) is None
            # The turn was rewound, and another one begins under its id.
            again = running(1, generation="h")
            assert table.add(again)
            assert not table.add(running(1))
            assert table.get(TURN) is again
            assert table.add(running(3, generation="h"))

    asyncio.run(play())


STEPS = st.lists(st.sampled_from(["open", "close", "add", "end", "closed"]), max_size=12)


@settings(max_examples=tries(100))
@given(STEPS)
def test_when_everything_is_over_nothing_is_kept(steps: list[str]) -> None:
    async def play() -> None:
        table = TurnTable()
        blocks: list[ExitStack] = []
        closings: list[ExitStack] = []
        newest: ExitStack | None = None
        runs: list[RunningTurn] = []
        for step in steps:
            match step:
                case "open":
                    block = ExitStack()
                    block.enter_context(table.opening(TURN))
                    blocks.append(block)
                case "closed" if closings:
                    closings[-1].close()
                    newest = None if closings.pop() is newest else newest
                case "close" if blocks:
                    blocks.pop(0).close()
                case "add":
                    runs.append(running(len(runs) + 1))
                    table.add(runs[-1])
                case "end" if runs:
                    newest = ExitStack()
                    newest.enter_context(table.closing(runs.pop(0)))
                    closings.append(newest)
            assert (TURN in table) == (table.get(TURN) is not None or table.is_opening(TURN) or newest is not None)
        for block in [*blocks, *closings]:
            block.close()
        for turn in runs:
            with table.closing(turn):
                pass
        assert table._entries == {}
        await settled()

    asyncio.run(play())


async def test_it_is_emptied_when_nothing_goes_on_with_any_turn() -> None:
    table, turn = TurnTable(), running()
    assert await table.emptied(0) == 0
    with table.opening(TURN):
        table.add(turn)
    over = asyncio.create_task(table.emptied(60))
    await settled()
    assert (await table.emptied(0), over.done()) == (1, False)
    with table.closing(turn), table.opening((KEY, "e-2")):
        assert await table.emptied(0) == 2
    # Another one begins before the first waiter has heard of it.
    opening = table.opening((KEY, "e-3"))
    opening.__enter__()
    await settled()
    assert not over.done()
    opening.__exit__(None, None, None)
    assert await over == 0


ASKED = p.StoredEvent(5, b"")


def progress(**more: Any) -> p.TurnProgress:
    return p.TurnProgress(**{"first_seq": 2, "opened_seq": 5, "head_seq": 5, **more})


def turn(progress: p.TurnProgress | None = None, **origin: Any) -> RunningTurn:
    return RunningTurn(p.TurnRef(KEY, "e-1", 1), "root", OpeningMessage(Event(), ASKED, RunConfig()), progress, **origin)


def test_a_run_has_ended_with_the_first_transfer_after_its_beginning() -> None:
    transfers = (
        p.TransferRecord(6, None, "root", "a"),
        p.TransferRecord(8, None, "a", "root"),
        p.TransferRecord(9, None, "root", "b"),
    )
    resumed = turn(progress=progress(transfers=transfers, head_seq=9), is_taken_up=True)
    at = Run("root", None, ASKED, None)
    reached = []
    while (record := resumed.recorded_transfer(at)) is not None:
        at = at.transferred(record.to, record.seq)
        reached.append(at.agent)
    assert reached == ["a", "root", "b"]
    assert turn().recorded_transfer(Run("root", None, ASKED, None)) is None


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


PATIENCE_S = 8.0


class FailingSession(SessionRef):
    """A client of a Session actor that fails with these errors first. Keeps the turns that were closed."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.closed: list[str] = []
        self.has_closed = asyncio.Event()

    async def _ask(self, request: p.Request[Any], *_: Any, **__: Any) -> Any:
        assert isinstance(request, p.CloseTurn)
        if self._errors:
            raise self._errors.pop(0)
        self.closed.append(request.turn.invocation_id)
        self.has_closed.set()
        return p.Ack()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are sent again at once."""
    monkeypatch.setattr("actors.runner.turns.BACKOFF", Backoff(0.01, 0.01))


def ref(name: str) -> p.TurnRef:
    return p.TurnRef(KEY, name, 1, generation="")


AWAY = (StoreUnavailableError("the store", "away"), ActorLostError("session", "killed"))


async def test_an_end_that_could_not_be_stored_is_sent_again_until_it_is() -> None:
    session = FailingSession(*AWAY, StoreError("it is broken"), *AWAY)
    closer = TurnCloser(session)
    assert await closer.close(ref("e-1"), "root", p.Finished(agent="root"))
    async with asyncio.timeout(PATIENCE_S):
        await session.has_closed.wait()
    assert session.closed == ["e-1"]
    await closer.flush_end((KEY, "e-1"))
    assert session.closed == ["e-1"]


async def test_each_end_is_sent_while_others_fail_and_who_needs_one_has_it_sent_now() -> None:
    session = FailingSession(*AWAY)
    closer = TurnCloser(session)
    for name in ("e-1", "e-2", "e-3"):
        await closer.close(ref(name), "root", p.Finished(agent="root"))
    await closer.flush_end((KEY, "e-2"))
    assert session.closed == ["e-3", "e-2"]
    async with asyncio.timeout(PATIENCE_S):
        while "e-1" not in session.closed:
            session.has_closed.clear()
            await session.has_closed.wait()
    assert sorted(session.closed) == ["e-1", "e-2", "e-3"]


@pytest.mark.parametrize(("error", "is_ours"), [(FencedError("e-1", 1, 2), False), (RaygroveError("refused"), True)])
async def test_an_end_that_is_refused_is_not_sent_again(error: RaygroveError, is_ours: bool) -> None:
    session = FailingSession(error)
    closer = TurnCloser(session)
    assert await closer.close(ref("e-1"), "root", p.Finished(agent="root")) is is_ours
    await closer.flush_end((KEY, "e-1"))
    assert session.closed == []


async def test_a_turn_that_ends_after_the_closer_was_stopped_leaves_nothing_that_would_send_it() -> None:
    closer, tasks = TurnCloser(FailingSession(*AWAY)), asyncio.all_tasks()
    closer.stop()
    assert await closer.close(ref("e-1"), "root", p.Finished(agent="root"))
    assert asyncio.all_tasks() == tasks


def test_a_repeated_run_is_the_same_but_for_its_number() -> None:
    runs = turn().runs
    first = Run("a", "x", ASKED, Run("flow", None, ASKED, None), 3)
    again = first.repeated()
    for each in (first, again):
        runs.begin_run(each)
    assert (again.agent, again.branch, again.user_event, again.parent, again.transfer_seq) == ("a", "x", ASKED, first.parent, 3)
    assert (first.number, again.number) == (1, 2)


def test_what_serves_a_request_is_found_through_transfers_and_by_the_name_that_was_asked_for() -> None:
    runs = turn().runs
    top = Run("top", None, ASKED, None)
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
    top = Run("top", None, ASKED, None)
    below = Run("below", None, ASKED, top)

    async def for_ever() -> p.AnyOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    async def waits(branch: str | None, parent: Run, asked: str) -> None:
        task = asyncio.create_task(for_ever())
        with runs.waiting(task, Run(asked, branch, ASKED, parent, asked=asked)):
            await asyncio.wait([task])

    waiting = (("p.a", top, "left"), (None, top, "late"), (None, below, "deep"), (None, Run("other", None, ASKED, None), "late"))
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


def test_calls_that_a_run_did_not_make_are_given_back_unless_the_log_may_have_them() -> None:
    calls = CallAllowance(5)
    for made, was_lost, used in ((3, False, 3), (0, False, 3), (0, True, 4)):
        calls.count(1)
        calls.end_run(made, counted=1, was_lost=was_lost)
        assert calls.used == used


def test_an_answer_that_a_client_has_wrapped_may_be_nested_too_deep() -> None:
    deep: JsonValue = "yes"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    wrapped = {"response": json.dumps({"confirmed": True, "payload": deep})}
    given = Part(function_response=FunctionResponse(id="c1", name=REQUEST_CONFIRMATION, response=wrapped))
    prepared = PreparedMessage(NOTHING_FOUND, checked(Content(parts=[given])), answers=("c1",))
    message = p.StartTurn(key=KEY, invocation_id="e-1", content=Content.of_text("hi"))
    event = user_event(message, prepared.content, "", "e-1", None)
    with pytest.raises(NotEncodableError, match="nested deeper"):
        encode_event(event)
