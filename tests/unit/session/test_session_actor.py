"""The Session actor: one writer, one log without gaps, one turn at a time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors import Content, RunConfig
from actors.errors import (
    FencedError,
    InvocationNotFoundError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    TurnCancelledError,
    UnknownFunctionCallError,
)
from actors.layers.listing.client import get_turn
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event
from tests.support.fixtures.log_events import resp
from tests.support.fixtures.session_fixture import KEY, OTHER, TREE, HeldCommits, SessionFixture, settled


async def test_it_tells_the_parent_map(session: SessionFixture) -> None:
    assert (await session.ref.ask(p.GetTopology())).topology == TREE


async def test_a_turn_is_opened_written_and_closed(session: SessionFixture) -> None:
    opened = await session.open("e-1", "hi")
    assert (opened.epoch, opened.seq, opened.authors, opened.progress) == (1, 1, (), None)
    assert await session.say(session.event("root", "one"), session.event("root", "two")) == 2
    assert await session.say(session.event("a", "three")) == 4
    await session.close()
    assert await session.log() == [(1, "user", "hi"), (2, "root", "one"), (3, "root", "two"), (4, "a", "three")]
    # Whoever spoke before one that may go on plays no part.
    assert (await session.open("e-2")).authors == ("a",)


async def test_the_log_of_many_writers_at_once_has_no_gaps(session: SessionFixture) -> None:
    await session.open()
    places = await asyncio.gather(*(session.say(session.event("root", f"{number}")) for number in range(40)))
    assert sorted(places) == list(range(2, 42))
    assert session.positions() == list(range(1, 42))
    assert [text for _, _, text in (await session.log())[1:]] == [f"{number}" for number in range(40)]


async def test_appends_that_wait_form_one_transaction(session: SessionFixture) -> None:
    await session.open()
    before = session.store.commits
    await asyncio.gather(*(session.say(session.event("root", f"{number}")) for number in range(40)))
    assert session.store.commits - before <= 3


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


async def test_taking_a_paused_turn_up_again_raises_its_epoch(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    found = await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1",)))
    assert (found.caller, found.invocation_id) == ("root", "e-1")
    assert (await session.open("e-1", "yes", answers=("c1",))).epoch == 2
    with pytest.raises(FencedError):
        await session.say(session.event("root", "old"), epoch=1)
    assert await session.say(session.event("root", "new"), epoch=2) == 4


async def test_an_answer_to_a_call_that_was_never_made_is_refused_before_anything_is_stored(session: SessionFixture) -> None:
    await session.turn("e-1", "ok")
    with pytest.raises(UnknownFunctionCallError, match="'zzz'"):
        await session.ref.ask(p.FindTurn(key=KEY, call_ids=("zzz",)))
    with pytest.raises(UnknownFunctionCallError):
        await session.open("e-2", answers=("zzz",))
    with pytest.raises(UnknownFunctionCallError):
        await session.ref.ask(p.FindTurn(key=OTHER, call_ids=("c1",), auto_create=True))
    assert len(await session.log()) == 2
    await session.turn("e-3", "ok")


async def test_of_several_answers_the_first_decides_and_every_id_must_be_known(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("a", call="c1"), session.event("root", call="c2"))
    assert (await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1", "c2")))).caller == "a"
    assert (await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c2", "c1")))).caller == "root"
    with pytest.raises(UnknownFunctionCallError, match="'c3'"):
        await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1", "c3")))


async def test_the_same_invocation_id_again_is_the_same_turn(session: SessionFixture) -> None:
    await session.open("e-1", repeatable=True)
    await session.say(session.event("root", "one"))
    assert await session.ask_to_open("e-1", repeatable=True) == p.TurnJoined(invocation_id="e-1")
    await session.close()
    assert await session.ask_to_open("e-1", repeatable=True, subscriber="late") == p.TurnJoined(invocation_id="e-1", agent="root")
    assert await session.news("late") == (1, [(2, "one")], ["Finished"])
    assert len(await session.log()) == 2


async def test_the_same_invocation_id_twice_at_once_is_one_turn(session: SessionFixture) -> None:
    await session.turn("e-0")
    opened = await asyncio.wait_for(asyncio.gather(*(session.ask_to_open("e-1", repeatable=True) for _ in range(3))), 5)
    assert sorted(type(each).__name__ for each in opened) == ["TurnBegun", "TurnJoined", "TurnJoined"]
    await session.close()
    assert len(await session.log()) == 2


async def test_the_same_invocation_id_twice_at_once_in_line_is_one_turn(session: SessionFixture) -> None:
    await session.open("e-0")
    opening = [asyncio.create_task(session.ask_to_open("e-1", repeatable=True, subscriber="d")) for _ in range(3)]
    await settled()
    await session.close("e-0")
    opened = await asyncio.wait_for(asyncio.gather(*opening), 5)
    assert sorted(type(each).__name__ for each in opened) == ["TurnBegun", "TurnJoined", "TurnJoined"]
    await session.close("e-1")
    assert len(await session.log()) == 2


async def test_a_turn_of_the_same_id_after_a_restart_is_the_same_turn(session: SessionFixture) -> None:
    await session.open("e-1", repeatable=True)
    await session.say(session.event("root", "one"))
    await session.close()
    again = await session.restarted()
    assert await again.ask_to_open("e-1", repeatable=True) == p.TurnJoined(invocation_id="e-1", agent="root")
    await again.ref.stop()


async def test_turns_of_a_session_wait_in_line_and_come_in_order(session: SessionFixture) -> None:
    await session.open("e-1")
    waiting = []
    for number in range(2, 5):
        waiting.append(asyncio.create_task(session.open(f"e-{number}", f"q{number}")))
        await settled()
    assert not any(task.done() for task in waiting)
    for number in range(2, 5):
        await session.close(f"e-{number - 1}")
        await waiting[number - 2]
        await settled()
        assert [task.done() for task in waiting] == [True] * (number - 1) + [False] * (4 - number)
    assert [text for _, _, text in await session.log()] == ["hi", "q2", "q3", "q4"]


async def test_other_sessions_do_not_wait(session: SessionFixture) -> None:
    await session.open("e-1")
    assert (await session.open("e-1", key=OTHER)).seq == 1


async def test_a_turn_can_ask_to_be_refused_while_another_runs(session: SessionFixture) -> None:
    await session.open("e-1")
    with pytest.raises(SessionBusyError, match="busy with turn 'e-1'"):
        await session.open("e-2", config=RunConfig(on_concurrent_turn="reject"))
    await session.close("e-1")
    assert (await session.open("e-2", config=RunConfig(on_concurrent_turn="reject"))).seq == 2


async def test_a_turn_can_ask_for_the_running_one_to_be_cancelled(session: SessionFixture) -> None:
    await session.open("e-1")
    interrupting = RunConfig(on_concurrent_turn="interrupt")
    assert await session.ask_to_open("e-2", config=interrupting) == p.CancelRequired(invocation_id="e-1")
    await session.close("e-1", p.Cancelled(agent="root"))
    assert (await session.open("e-2", config=interrupting)).seq == 2


async def test_one_that_interrupts_while_another_is_about_to_begin_has_to_interrupt_that(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", call="c1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c1",)))
    answering = asyncio.create_task(session.open("e-1", "yes", answers=("c1",)))
    # When this one comes, the session is taken, and there is no turn yet that could be cancelled.
    interrupting = asyncio.create_task(session.ask_to_open("e-2", config=RunConfig(on_concurrent_turn="interrupt")))
    assert await interrupting == p.CancelRequired(invocation_id="e-1")
    assert (await answering).epoch == 2


async def test_a_request_that_is_sent_again_leaves_the_turn_that_it_opened_to_its_runner(session: SessionFixture) -> None:
    asked = p.OpenTurn(
        key=KEY, invocation_id="e-1", event=encode(session.event("user", "hi")), auto_create=True, runner="runner", subscriber="d"
    )
    assert isinstance(await session.ref.open_turn(asked), p.TurnBegun)
    # The Runner resumes it if it does not run: only the reply may have been lost.
    assert await session.ref.open_turn(asked) == p.TurnJoined(invocation_id="e-1", seq=1, is_lost=True)
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert isinstance(resumed, p.TurnResumed)
    assert (resumed.epoch, resumed.seq, resumed.event) == (2, 1, asked.event)
    assert await session.log() == [(1, "user", "hi")]


async def test_a_turn_in_line_can_be_cancelled_and_those_behind_it_move_up(session: SessionFixture) -> None:
    await session.open("e-1")
    second, third = (asyncio.create_task(session.open(turn)) for turn in ("e-2", "e-3"))
    await settled()
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError, match="'e-2'"):
        await second
    assert not third.done()
    await session.close("e-1")
    assert (await third).seq == 2


async def test_who_follows_a_turn_in_line_is_told_when_it_is_cancelled(session: SessionFixture) -> None:
    await session.open("e-1")
    waiting = asyncio.create_task(session.open("e-2", repeatable=True))
    await settled()
    assert await session.ask_to_open("e-2", repeatable=True, subscriber="d2") == p.TurnJoined(invocation_id="e-2")
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError):
        await waiting
    assert await asyncio.wait_for(session.news("d2"), 5) == (1, [], ["Cancelled"])


async def test_cancelling_a_turn_that_is_not_there_is_no_error(session: SessionFixture) -> None:
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))


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


async def test_a_session_that_is_there_cannot_be_made_again(session: SessionFixture) -> None:
    made = (await session.ref.ask(p.CreateSessionRequest(key=KEY, state={"a": 1, "app:k": 2, "temp:t": 3}))).session
    assert made is not None
    assert made.state == {"a": 1, "app:k": 2}
    with pytest.raises(SessionExistsError):
        await session.ref.ask(p.CreateSessionRequest(key=KEY))
    again = await session.restarted()
    with pytest.raises(SessionExistsError):
        await again.ref.ask(p.CreateSessionRequest(key=KEY))
    assert await again.state() == {"a": 1, "app:k": 2}
    await again.ref.stop()


async def test_the_newest_events_are_told_and_none_with_0(session: SessionFixture) -> None:
    await session.turn("e-1", "a", "b")
    assert await session.log(num_recent_events=2) == [(2, "root", "a"), (3, "root", "b")]
    assert await session.log(num_recent_events=0) == []
    assert await session.log(after_timestamp=3.0) == [(3, "root", "b")]


async def test_an_event_can_be_added_outside_of_turns_and_not_while_one_runs(session: SessionFixture) -> None:
    await session.turn("e-1", "a")
    raw = encode(session.event("user", "note", turn="e-x", state_delta={"n": 1}))
    assert await session.ref.append_event(p.AppendEventRequest(key=KEY, event=raw)) == 3
    assert await session.state() == {"n": 1}
    await session.open("e-2")
    for asked in (
        session.ref.append_event(p.AppendEventRequest(key=KEY, event=raw)),
        session.ref.ask(p.DeleteSessionRequest(key=KEY)),
        session.ref.ask(RewindRequest(key=KEY, invocation_id="e-1")),
    ):
        with pytest.raises(SessionBusyError, match="'e-2'"):
            await asked


@pytest.mark.parametrize("end", [p.Cancelled(agent="root"), p.Failed(agent="root", error_code="E", error_message="e")])
async def test_an_answer_to_a_question_that_a_late_answer_has_led_to_continues_no_workflow(
    session: SessionFixture, end: p.Cancelled | p.Failed
) -> None:
    async def ask(call_id: str, epoch: int, outcome: p.AnyOutcome) -> None:
        call = msgspec.structs.replace(session.event("root", call=call_id), long_running_tool_ids=(call_id,))
        await session.say(call, epoch=epoch)
        await session.close("e-1", outcome, epoch)

    await session.open()
    await ask("c1", 1, end)
    for number in (1, 2):
        begun = await session.answer("e-1", f"c{number}")
        assert isinstance(begun, p.TurnBegun)
        assert begun.progress is not None
        assert begun.progress.callers == ()
        session = await session.restarted()
        resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="another"))
        assert isinstance(resumed, p.TurnResumed)
        assert resumed.progress.callers == ()
        await ask(f"c{number + 1}", resumed.epoch, p.Paused(agent="root", call_ids=(f"c{number + 1}",)))
    await session.ref.stop()
