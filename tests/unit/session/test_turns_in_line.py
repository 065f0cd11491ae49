"""Requests for turns that wait: who follows and joins them, messages that a turn reads, and what the loss of a Runner leaves."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors import RunConfig
from actors.errors import RepeatMismatchError, SessionBusyError, StoreError, TooLargeError, TurnCancelledError, TurnStateError
from actors.layers.listing.client import count_turns, get_turn, list_turns
from actors.layers.listing.messages import ListTurns, TurnCounts
from actors.layers.retries import RetryTurn
from actors.layers.schedules.messages import AwaitDue, DueReply
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.event import FINGERPRINT
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled

LOST, NEXT = "runner/1", "runner/2"
"""A Runner, and the one that was started in its place."""


async def test_a_request_of_the_next_runner_does_not_join_what_the_lost_one_had_in_line(session: SessionFixture) -> None:
    await session.open(runner=LOST)
    in_line = asyncio.create_task(session.ask_to_open("e-2", runner=LOST))
    await settled()
    # It comes before the Runner that was started again has asked for the open turns.
    assert await session.ask_to_open("e-2", runner=NEXT, repeatable=True) == p.NotLeader(number=0)
    assert await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)) == p.Ack()
    assert await session.ask_to_open("e-2", runner=NEXT, repeatable=True) == p.ResumeRequired(invocation_id="e-1")
    assert await in_line == p.NotLeader(number=1)


async def test_who_follows_a_turn_in_line_learns_that_it_was_dropped_with_its_runner(session: SessionFixture) -> None:
    await session.open(runner=LOST)
    in_line = asyncio.create_task(session.ask_to_open("e-2", runner=LOST))
    await settled()
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-2"))
    await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0))
    assert isinstance(await in_line, p.NotLeader)
    [told] = (await asyncio.wait_for(session.ref.ask(p.Poll(subscriber="d")), 5)).turns
    assert (told.invocation_id, told.is_dropped, told.outcome) == ("e-2", True, None)


async def test_who_follows_a_turn_in_line_is_told_when_it_is_cancelled(session: SessionFixture) -> None:
    await session.open("e-1")
    waiting = asyncio.create_task(session.open("e-2", repeatable=True))
    await settled()
    assert await session.ask_to_open("e-2", repeatable=True, subscriber="d2") == p.TurnJoined(invocation_id="e-2")
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))
    with pytest.raises(TurnCancelledError):
        await waiting
    assert await asyncio.wait_for(session.news("d2"), 5) == (1, [], ["Cancelled"])


async def test_nothing_that_a_lost_runner_has_sent_does_anything_when_its_successor_has_announced_itself(
    session: SessionFixture,
) -> None:
    await session.open(runner=LOST)
    assert await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)) == p.Ack()
    resume = p.ResumeTurn(key=KEY, invocation_id="e-1", runner=LOST)
    late = p.NotLeader(number=1)
    assert await session.ask_to_open("e-2", runner=LOST) == late
    assert await session.ref.ask(resume) == late
    assert await session.ref.ask(p.ListOpenTurns(app="app", runner=LOST)) == late
    # One that was told the number before.
    assert await session.ref.ask(p.AnnounceRunner(runner=LOST, number=0)) == late
    resumed = await session.ref.ask(msgspec.structs.replace(resume, runner=NEXT))
    assert isinstance(resumed, p.TurnResumed)
    assert resumed.epoch == 2


async def test_who_was_let_in_while_its_runner_was_replaced_gives_the_session_back(session: SessionFixture) -> None:
    await session.open(runner=LOST)
    let_in = asyncio.create_task(session.ask_to_open("e-2", runner=LOST))
    await settled()
    announcing = asyncio.create_task(session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)))
    await session.close()
    await announcing
    assert await let_in == p.NotLeader(number=1)
    assert isinstance(await session.ask_to_open("e-3", runner=NEXT), p.TurnBegun)


async def test_a_request_that_is_sent_again_begins_no_second_turn_and_is_not_overtaken(session: SessionFixture) -> None:
    await session.open()
    message = p.OpenTurn(key=KEY, invocation_id="e-2", event=encode(session.event("user", "hi", turn="e-2")), runner="runner")
    first = asyncio.create_task(session.ref.open_turn(message))
    await settled()
    behind = asyncio.create_task(session.ask_to_open("e-3"))
    await settled()
    again = asyncio.create_task(session.ref.open_turn(msgspec.structs.replace(message, repeatable=True)))
    await settled()
    await session.close()
    assert isinstance(await asyncio.wait_for(first, 5), p.TurnBegun)
    joined = await asyncio.wait_for(again, 5)
    assert isinstance(joined, p.TurnJoined)
    # The Runner may have lost the first reply.
    assert joined.is_lost
    assert not behind.done()
    await session.close("e-2")
    assert isinstance(await behind, p.TurnBegun)


async def test_who_asks_for_a_paused_turn_whose_answer_is_in_line_gets_it_from_its_first_event(session: SessionFixture) -> None:
    answering = await answer_in_line(session)
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    number, told, ends = await asyncio.wait_for(session.news("d"), 5)
    assert (told, ends) == ([(2, "may I?")], [])
    await session.close("e-2")
    assert (await answering).seq == 4
    await session.say(session.event("root", "done"), epoch=2)
    await session.close(epoch=2)
    assert (await asyncio.wait_for(session.news("d", number), 5))[1:] == ([(5, "done")], ["Finished"])


async def test_a_paused_turn_cannot_be_cancelled_while_another_runs_and_its_answer_keeps_its_place(
    session: SessionFixture,
) -> None:
    answering = await answer_in_line(session)
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    with pytest.raises(SessionBusyError, match="'e-2'"):
        await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    assert await asyncio.wait_for(session.news("d"), 5) == (1, [(2, "may I?")], [])
    await session.close("e-2")
    assert (await asyncio.wait_for(answering, 5)).seq == 4


async def test_an_answer_to_a_turn_that_has_ended_is_taken_out_of_line_and_the_turn_stays_as_it_is(
    session: SessionFixture,
) -> None:
    answering = await answer_in_line(session, p.Finished(agent="root"))
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    with pytest.raises(TurnCancelledError):
        await answering
    assert await asyncio.wait_for(session.news("d"), 5) == (1, [(2, "may I?")], ["Finished"])
    await session.close("e-2")


async def test_a_paused_turn_is_told_as_paused_when_its_answer_cannot_be_stored(session: SessionFixture) -> None:
    answering = await answer_in_line(session, answer="x" * DEFAULT_LIMITS.max_event_bytes)
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    await session.close("e-2")
    with pytest.raises(TooLargeError):
        await answering
    assert await asyncio.wait_for(session.news("d"), 5) == (1, [(2, "may I?")], ["Paused"])
    assert (await session.open("e-1", "yes", answers=("c1",))).epoch == 2


async def test_a_paused_turn_whose_answer_is_in_line_is_listed_with_its_record(session: SessionFixture) -> None:
    answering = await answer_in_line(session)
    waiting = asyncio.create_task(session.open("e-3"))
    await settled()
    got = await get_turn(session.ref, KEY, "e-1")
    listed = await list_turns(session.ref, ListTurns(app=KEY.app, state="waiting"))
    assert (got.state, got.agent, got.first_seq, got.last_seq, got.epoch) == ("waiting", "root", 1, 2, 1)
    assert listed[0] == got
    assert [(turn.invocation_id, turn.state, turn.first_seq) for turn in listed] == [("e-1", "waiting", 1), ("e-3", "waiting", 0)]
    assert await count_turns(session.ref, KEY.app) == TurnCounts(waiting=2, running=1, paused=0)
    await session.close("e-2")
    await answering
    again = asyncio.create_task(session.open("e-1", "yes", answers=("c1",)))
    await settled()
    listed = await list_turns(session.ref, ListTurns(app=KEY.app))
    assert [(turn.invocation_id, turn.state) for turn in listed] == [("e-3", "waiting"), ("e-2", "finished"), ("e-1", "running")]
    await session.close("e-1", epoch=2)
    await waiting
    await session.close("e-3")
    await again


async def test_an_answer_to_several_calls_of_which_one_was_answered_meanwhile_is_refused_as_a_whole(
    session: SessionFixture,
) -> None:
    await session.open("e-1")
    calls = [session.event("root", call="c1"), session.event("root", call="c2")]
    await session.say(*(msgspec.structs.replace(each, long_running_tool_ids=(f"c{n}",)) for n, each in enumerate(calls, 1)))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c1", "c2")))
    await session.open("e-2")
    first, both = (
        asyncio.create_task(session.answer("e-1", *ids, subscriber=name)) for name, ids in (("d", ["c1"]), ("f", ["c1", "c2"]))
    )
    await settled()
    await session.close("e-2")
    assert isinstance(await first, p.TurnBegun)
    await session.close("e-1", p.Paused(agent="root", call_ids=("c2",)), epoch=2)
    with pytest.raises(TurnStateError, match=r"call 'c1' waits for no answer in session 's1': it has been answered.*wait: 'c2'"):
        await both
    assert [author for _, author, _ in await session.log()] == ["user", "root", "root", "user", "user"]
    assert isinstance(await session.answer("e-1", "c2", only_waiting=True), p.TurnBegun)


async def answer_in_line(
    session: SessionFixture, ends: p.AnyOutcome | None = None, answer: str = "yes"
) -> asyncio.Task[p.TurnBegun]:
    """The turn e-1 is paused, or `ends` otherwise; e-2 runs, and the answer to the call of e-1 waits for its end."""
    await session.open("e-1")
    await session.say(session.event("root", "may I?", call="c1"))
    await session.close("e-1", ends or p.Paused(agent="root", call_ids=("c1",)))
    await session.open("e-2")
    answering = asyncio.create_task(session.open("e-1", answer, answers=("c1",)))
    await settled()
    return answering


async def test_a_turn_whose_end_is_being_stored_is_waited_for_and_not_resumed_first(session: SessionFixture) -> None:
    await session.open("e-1", runner=LOST)
    # Its agent has lost its Runner, and is about to end the turn.
    assert await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)) == p.Ack()
    held = HeldCommits(session.store)
    ending = asyncio.create_task(session.say(session.event("root", "over"), outcome=p.Finished(agent="root")))
    await settled()
    asking = asyncio.create_task(session.ask_to_open("e-2", runner=NEXT))
    await settled()
    assert not asking.done()
    held.let_go()
    await ending
    assert isinstance(await asking, p.TurnBegun)


async def test_a_request_that_comes_after_the_one_sent_again_in_its_place_leaves_the_turn_to_its_runner(
    session: SessionFixture,
) -> None:
    event = encode(session.event("user", "hi"))
    late = p.OpenTurn(key=KEY, invocation_id="e-1", repeatable=True, event=event, auto_create=True, runner="runner")
    begun = await session.ref.open_turn(msgspec.structs.replace(late, epoch=2))
    assert isinstance(begun, p.TurnBegun)
    assert isinstance(await session.ref.open_turn(late), p.TurnJoined)
    turn = p.TurnRef(KEY, "e-1", begun.epoch, generation=begun.generation)
    await session.ref.ask(p.CloseTurn(turn=turn, agent="root", outcome=p.Finished(agent="root")))


async def asked(session: SessionFixture, turn: str, fingerprint: str = "") -> p.OpenTurnReply:
    """The reply to a request with a fingerprint."""
    metadata = {FINGERPRINT: fingerprint} if fingerprint else None
    event = msgspec.structs.replace(session.event("user", "hi", turn=turn), custom_metadata=metadata)
    return await session.ref.open_turn(
        p.OpenTurn(
            key=KEY,
            invocation_id=turn,
            event=encode(event),
            auto_create=True,
            runner="runner",
            repeatable=True,
            fingerprint=fingerprint,
        )
    )


@pytest.mark.parametrize("where", ["in line", "open", "ended", "not in memory"])
async def test_another_request_under_the_id_of_a_turn_is_refused(session: SessionFixture, where: str) -> None:
    if where == "in line":
        await session.open("e-0")
    first = asyncio.create_task(asked(session, "e-1", "a"))
    if where == "in line":
        await settled()
    else:
        begun = await first
        assert isinstance(begun, p.TurnBegun)
        if where != "open":
            ref = p.TurnRef(KEY, "e-1", begun.epoch, generation=begun.generation)
            await session.ref.ask(p.CloseTurn(turn=ref, agent="root", outcome=p.Finished(agent="root")))
        if where == "not in memory":
            session = session.heir()
    with pytest.raises(RepeatMismatchError, match="'e-1'"):
        await asked(session, "e-1", "b")
    with pytest.raises(RepeatMismatchError, match="'e-1'"):
        await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", fingerprint="b"))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", fingerprint="a"))
    assert isinstance(await asked(session, "e-1", "a"), p.TurnJoined)
    assert isinstance(await asked(session, "e-1"), p.TurnJoined)
    if where == "in line":
        await session.close("e-0")
        assert isinstance(await first, p.TurnBegun)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_turn_is_joined_when_its_message_is_on_disk(session: SessionFixture, is_stored: bool) -> None:
    await session.turn("e-0", "one")
    held = HeldCommits(session.store)
    first = asyncio.create_task(session.open("e-1"))
    await settled()
    joining = asyncio.create_task(session.ask_to_open("e-1", repeatable=True))
    await settled()
    assert not joining.done()
    session.store.failures = 0 if is_stored else 10
    held.let_go()
    if is_stored:
        assert await joining == p.TurnJoined(invocation_id="e-1")
        await first
        return
    for refused in (first, joining):
        with pytest.raises(StoreError, match="disk is full"):
            await refused


async def test_a_request_that_finds_a_turn_which_cannot_be_stored_begins_it(session: SessionFixture) -> None:
    await session.turn("e-0", "one")
    held = HeldCommits(session.store)
    first = asyncio.create_task(asked(session, "e-1", "a"))
    await settled()
    again = asyncio.create_task(asked(session, "e-1", "a"))
    await settled()
    session.store.failures = 2
    held.let_go()
    with pytest.raises(StoreError, match="disk is full"):
        await first
    assert isinstance(await again, p.TurnBegun)


async def test_a_request_that_is_repeated_is_given_all_also_where_its_program_follows_the_rest(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", "one"), session.event("root", "two"))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=2))
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    assert await session.news("d") == (1, [(2, "one"), (3, "two")], [])


STEER = RunConfig(on_concurrent_turn="steer")


async def read(session: SessionFixture, turn: str) -> list[str]:
    """What an agent of a turn reads."""
    reply = await session.ref.ask(p.ReadMessages(turn=session.turn_ref(turn), agent="root"))
    return [message.text for message in reply.messages]


async def test_messages_that_come_while_a_turn_begins_are_given_to_it(session: SessionFixture) -> None:
    await session.open()
    await session.say(msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",)))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    said = (session.ask_to_open(f"e-{number}", f"m{number}", config=STEER) for number in (2, 3))
    begun, *left = await asyncio.gather(session.answer("e-1", "c1"), *said)
    assert isinstance(begun, p.TurnBegun)
    assert left == [p.MessageLeft(invocation_id="e-1", after_seq=begun.seq)] * 2
    assert (await session.ref.ask(p.ReadMessages(turn=session.turn_ref("e-1", epoch=begun.epoch), agent="root"))).messages


@pytest.mark.parametrize("from_event", ["", "e-1-root-2"], ids=["", "from a step"])
async def test_messages_that_come_while_a_turn_is_tried_again_are_given_to_it(session: SessionFixture, from_event: str) -> None:
    await session.open()
    await session.say(session.event("root", "kept"))
    await session.close(outcome=p.Failed(agent="root", error_code="E"))
    retry = RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event=from_event)
    said = (session.ask_to_open(f"e-{number}", f"m{number}", config=STEER) for number in (2, 3))
    interrupt = session.ask_to_open("e-4", "m4", config=RunConfig(on_concurrent_turn="interrupt"))
    resumed, *replies = await asyncio.wait_for(asyncio.gather(session.ref.ask(retry), *said, interrupt), 20)
    assert isinstance(resumed, p.TurnResumed)
    assert [type(reply) for reply in replies] == [p.MessageLeft, p.MessageLeft, p.CancelRequired]
    turn = p.TurnRef(KEY, "e-1", resumed.epoch, generation=resumed.generation)
    read = await session.ref.ask(p.ReadMessages(turn=turn, agent="root"))
    assert [message.text for message in read.messages] == ["m2", "m3"]


@pytest.mark.parametrize("is_over", [True, False], ids=["the turn is over", "its end is under way"])
async def test_a_message_begins_no_turn_before_those_that_wait(session: SessionFixture, is_over: bool) -> None:
    await session.open()
    await session.ask_to_open("e-2", "m2", config=STEER)
    end = asyncio.create_task(session.close())
    if is_over:
        await end
    assert await session.ask_to_open("e-3", "m3", config=STEER) == p.MessageLeft(invocation_id="e-2", after_seq=1)
    due = await session.ref.ask(AwaitDue(app=KEY.app, runner="runner"))
    assert isinstance(due, DueReply)
    assert [turn.time.id for turn in due.turns] == ["e-2", "e-3"]
    assert isinstance(await session.ask_to_open("e-2", "m2", config=STEER, due=due.turns[0].time), p.TurnBegun)
    assert await read(session, "e-2") == ["m3"]
    await session.close("e-2")
    assert isinstance(await session.ask_to_open("e-4", "m4", config=STEER), p.TurnBegun)


async def test_the_turn_that_a_message_has_begun_does_not_read_it_before_its_time_has_passed(session: SessionFixture) -> None:
    await session.open()
    event = encode(session.event("user", "more", turn="e-2"))
    message = p.OpenTurn(key=KEY, invocation_id="e-2", event=event, runner="runner", config=STEER)
    await session.ref.open_turn(message)
    await session.close()
    await session.ref.open_turn(message)
    assert await read(session, "e-2") == []


async def test_a_message_that_is_read_as_it_is_stored_is_given_to_the_turn(session: SessionFixture) -> None:
    begun = await session.open()
    said = asyncio.create_task(session.ask_to_open("e-2", "m2", config=STEER))
    # An agent that waits reads it before who sends it is told that it is stored.
    async with asyncio.timeout(20):
        while not await read(session, "e-1"):
            pass
    assert await said == p.MessageLeft(invocation_id="e-1", after_seq=begun.seq)
