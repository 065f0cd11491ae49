"""Who is told what of a turn: in order, once, and again when a reply was lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors import Content, Event
from actors.errors import InvocationNotFoundError, SessionNotFoundError, TurnCancelledError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from tests.support.fixtures.session_fixture import KEY, SessionFixture, settled
from tests.support.inside import FORGET_S

WHERE = (KEY, "e-1")


def raw(text: str, author: str = "root") -> bytes:
    return encode(Event(author=author, content=Content.of_text(text, role="model")))


async def test_a_subscriber_is_told_everything_in_order_but_not_the_users_message(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    piece = msgspec.structs.replace(session.event("root", "on"), partial=True)
    await session.ref.ask(p.TellPartial(turn=session.turn_ref(), events=[encode(piece)]))
    await session.say(session.event("root", "one"), session.event("root", "two"))
    await session.say(session.event("a", "three"))
    await session.close()
    assert await session.news("d") == (1, [(0, "on"), (2, "one"), (3, "two"), (4, "three")], ["Finished"])


async def test_a_poll_waits_for_news(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    polling = asyncio.create_task(session.news("d"))
    await settled()
    assert not polling.done()
    await session.say(session.event("root", "one"))
    assert await polling == (1, [(2, "one")], [])
    polling = asyncio.create_task(session.news("d", ack=1))
    await session.close()
    assert await polling == (2, [], ["Finished"])


async def test_partial_events_are_never_stored(session: SessionFixture) -> None:
    await session.open()
    piece = msgspec.structs.replace(session.event("root", "on"), partial=True)
    await session.ref.ask(p.TellPartial(turn=session.turn_ref(), events=[encode(piece)]))
    assert session.positions() == [1]


async def test_several_subscribers_are_each_told_everything(session: SessionFixture) -> None:
    await session.open(subscriber="d1")
    await session.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1"))
    await session.say(session.event("root", "one"))
    for name in ("d1", "d2"):
        assert await session.news(name) == (1, [(2, "one")], [])


async def test_who_comes_later_is_told_what_was_said_already_and_then_what_follows(session: SessionFixture) -> None:
    await session.turn("e-0", "before")
    await session.open("e-1")
    for text in ("one", "two"):
        await session.say(session.event("root", text))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    await session.say(session.event("root", "three"))
    await session.close()
    assert await session.news("d") == (1, [(4, "one"), (5, "two"), (6, "three")], ["Finished"])


async def test_who_has_part_of_a_turn_is_told_only_what_is_behind_it(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", "one"), session.event("root", "two"))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=2))
    assert await session.news("d") == (1, [(3, "two")], [])


async def test_who_has_part_of_a_turn_and_has_answered_it_is_told_what_came_before_the_answer(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", "may I?", call="c1"), session.event("root", "perhaps"))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    session = await session.restarted()
    await session.answer("e-1", "c1", subscriber="d")
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=2))
    await session.say(session.event("root", "done"), epoch=2)
    assert (await session.news("d"))[1] == [(3, "perhaps"), (5, "done")]


async def test_who_comes_after_a_pause_is_told_the_turn_from_its_first_event(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", "may I?", call="c1"))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    await session.answer("e-1", "c1")
    await session.say(session.event("root", "done"), epoch=2)
    await session.ref.subscribe(p.Subscribe(subscriber="late", key=KEY, invocation_id="e-1"))
    assert (await session.news("late"))[1] == [(2, "may I?"), (4, "done")]


async def test_a_turn_that_has_ended_is_told_to_its_end_also_after_a_restart(session: SessionFixture) -> None:
    await session.turn("e-1", "one", "two")
    await session.turn("e-2", "other")
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert await session.news("d") == (1, [(2, "one"), (3, "two")], ["Finished"])
    again = await session.restarted()
    await again.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert await again.news("d") == (1, [(2, "one"), (3, "two")], ["Finished"])
    await again.ref.stop()


async def test_a_long_turn_is_told_from_the_store_where_memory_ends(session: SessionFixture) -> None:
    await session.open("e-1")
    await asyncio.gather(*(session.say(session.event("root", f"{number}")) for number in range(300)))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    told: list[tuple[int, str]] = []
    ack = 0
    while len(told) < 300:
        ack, events, _ = await session.news("d", ack)
        told += events
    assert told == [(number + 2, f"{number}") for number in range(300)]


async def test_who_follows_a_turn_learns_where_it_is(session: SessionFixture) -> None:
    following = p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1")
    await session.open("e-1")
    assert await session.ref.subscribe(following) == "running"
    waiting = asyncio.create_task(session.open("e-2"))
    await settled()
    assert await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-2")) == "waiting"
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-2"))
    await asyncio.wait([waiting])
    again = await session.restarted()
    # The Session actor has been started again, and no Runner has said yet that it runs the turn.
    assert await again.ref.subscribe(following) == "lost"
    await again.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner", running=again.turn_ref()))
    assert await again.ref.subscribe(following) == "running"
    await again.close("e-1", p.Paused(agent="root"))
    assert await again.ref.subscribe(following) == "ended"
    assert isinstance(waiting.exception(), TurnCancelledError)
    await again.ref.stop()


async def test_turns_of_a_runner_that_was_started_again_are_lost_until_they_are_resumed(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.ref.ask(p.ListOpenTurns(app="app", runner="another"))
    following = p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1")
    assert await session.ref.subscribe(following) == "lost"
    assert await session.ask_to_open("e-2", runner="another") == p.ResumeRequired(invocation_id="e-1")
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="another"))
    assert isinstance(resumed, p.TurnResumed)
    assert (resumed.epoch, resumed.seq) == (2, 1)
    assert await session.ref.subscribe(following) == "running"
    await session.close("e-1", epoch=2)
    assert await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="another")) == p.Ack()


async def test_who_follows_a_turn_that_is_lost_is_told_when_its_session_is_deleted(session: SessionFixture) -> None:
    await session.open(runner="runner/1")
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0)) == p.Ack()
    await session.ref.ask(p.DeleteSessionRequest(key=KEY))
    news = await asyncio.wait_for(session.ref.ask(p.Poll(subscriber="d")), 5)
    assert [turn.outcome.error_code for turn in news.turns if isinstance(turn.outcome, p.Failed)] == ["SessionNotFoundError"]


@pytest.mark.parametrize("steps", range(12, 40, 4))
async def test_who_comes_to_follow_it_meanwhile_is_told_as_well(session: SessionFixture, steps: int) -> None:
    await session.open(runner="runner/1")
    assert await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0)) == p.Ack()
    deleting = asyncio.create_task(session.ref.ask(p.DeleteSessionRequest(key=KEY)))
    for _ in range(steps):
        await asyncio.sleep(0)
    try:
        await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    except (InvocationNotFoundError, SessionNotFoundError):
        return
    finally:
        await deleting
    news = await asyncio.wait_for(session.ref.ask(p.Poll(subscriber="d")), 5)
    assert [turn.outcome.error_code for turn in news.turns if isinstance(turn.outcome, p.Failed)] == ["SessionNotFoundError"]


async def test_a_turn_in_line_can_be_followed(session: SessionFixture) -> None:
    await session.open("e-1")
    waiting = asyncio.create_task(session.open("e-2"))
    await settled()
    piece = msgspec.structs.replace(session.event("root", "not"), partial=True)
    await session.ref.ask(p.TellPartial(turn=session.turn_ref(), events=[encode(piece)]))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-2"))
    polling = asyncio.create_task(session.news("d"))
    await settled()
    assert not polling.done(), "what is streamed of the turn before it is not for this subscriber"
    polling.cancel()
    await session.say(session.event("root", "not yours"))
    await session.close("e-1")
    await waiting
    await session.say(session.event("root", "yours", turn="e-2"), turn="e-2")
    assert await session.news("d") == (1, [(4, "yours")], [])


async def test_a_reply_that_was_lost_is_given_again(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    await session.say(session.event("root", "one"))
    first = await session.news("d")
    await session.say(session.event("root", "two"))
    assert await session.news("d") == first
    assert await session.news("d", ack=1) == (2, [(3, "two")], [])
    assert await session.news("d", ack=1) == (2, [(3, "two")], [])


async def test_news_that_a_forgotten_poll_took_along_are_given_to_the_next(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    forgotten = asyncio.create_task(session.news("d"))
    await settled()
    asked_again = asyncio.create_task(session.news("d"))
    await settled()
    await session.say(session.event("root", "one"))
    assert await asked_again == (1, [(2, "one")], [])
    assert await forgotten == (1, [(2, "one")], [])


async def test_who_is_not_known_any_more_is_told_so(session: SessionFixture) -> None:
    assert not (await session.ref.ask(p.Poll(subscriber="d", ack=3))).known
    await session.open(subscriber="d")
    await session.ref.ask(p.Unsubscribe(subscriber="d"))
    assert not (await session.ref.ask(p.Poll(subscriber="d", ack=1))).known
    await session.ref.ask(p.Unsubscribe(subscriber="nobody"))


async def test_a_mailbox_that_nobody_empties_is_given_up_when_another_is_made(session: SessionFixture) -> None:
    await session.open(subscriber="gone")
    await session.say(session.event("root", "one"))
    await session.news("gone")
    session.clock.now_s = FORGET_S + 1
    await session.ref.subscribe(p.Subscribe(subscriber="new", key=KEY, invocation_id="e-1"))
    assert not (await session.ref.ask(p.Poll(subscriber="gone", ack=1))).known
    await session.say(session.event("root", "two"))
    assert (await session.news("new"))[1] == [(2, "one"), (3, "two")]


async def test_of_many_subscribers_who_never_ask_none_is_kept_for_long(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    for number in range(100):
        await session.ref.subscribe(p.Subscribe(subscriber=f"gone-{number}", key=KEY, invocation_id="e-1"))
    await session.say(session.event("root", "one"))
    counts = (await session.ref.statistics()).counts
    assert counts["subscribers"] == 101
    assert counts["bytes_untold"] > 0
    session.clock.now_s = FORGET_S + 1
    await session.ref.subscribe(p.Subscribe(subscriber="new", key=KEY, invocation_id="e-1", after_seq=2))
    counts = (await session.ref.statistics()).counts
    assert (counts["subscribers"], counts["bytes_untold"]) == (1, 0)
    await session.say(session.event("root", "two"))
    assert (await session.news("new"))[1] == [(3, "two")]


async def test_a_turn_of_any_length_is_told_in_replies_of_bounded_size_to_who_comes_late(session: SessionFixture) -> None:
    await session.open("e-1")
    for _ in range(40):
        await session.say(session.event("root", "x" * 100_000))
    await session.close()
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    told: list[int] = []
    ack, ends = 0, list[str]()
    while not ends:
        ack, events, ends = await session.news("d", ack)
        assert len(events) <= 10
        told += [seq for seq, _ in events]
        assert (await session.ref.statistics()).counts["bytes_untold"] <= 1_000_000
    assert told == list(range(2, 42))


async def test_who_asks_for_a_turn_at_the_moment_it_ends_is_told_of_its_end(session: SessionFixture) -> None:
    await session.open("e-1", subscriber="d1")
    ending = asyncio.create_task(session.say(session.event("root", "bye"), outcome=p.Finished(agent="root"), selected="root"))
    assert await session.news("d1") == (1, [(2, "bye")], ["Finished"])
    await session.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1"))
    assert await asyncio.wait_for(session.news("d2"), 5) == (1, [(2, "bye")], ["Finished"])
    assert await ending == 2


async def test_an_answer_that_begins_anew_for_the_heir_of_a_lost_session_actor_is_told_from_its_beginning(
    session: SessionFixture,
) -> None:
    await session.open()
    heir = await session.reading_heir()
    # The driver may have the first words from the actor before.
    await heir.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=1))
    words = encode(session.event("root", "one"))
    assert await heir.ref.ask(p.TellPartial(turn=session.turn_ref(run=1), events=[words], first=0)) == p.Ack()
    (turn,) = (await heir.ref.ask(p.Poll(subscriber="d"))).turns
    assert ([stored.raw for stored in turn.answers], turn.events) == ([words], [])
    await heir.ref.stop()


@pytest.mark.parametrize("outcome", [p.Finished(), p.Failed(agent="root", error_code="E"), p.Cancelled(), p.Paused()])
async def test_what_was_streamed_of_an_answer_is_forgotten_when_its_turn_ends(
    session: SessionFixture, outcome: p.AnyOutcome
) -> None:
    await session.open()
    words = encode(msgspec.structs.replace(session.event("root", "one"), partial=True))
    assert await session.ref.ask(p.TellPartial(turn=session.turn_ref(run=1), events=[words], first=0)) == p.Ack()
    await session.close(outcome=outcome)
    for subscriber, turn in (("of-turn", "e-1"), ("of-session", WHOLE_SESSION)):
        await session.ref.subscribe(p.Subscribe(subscriber=subscriber, key=KEY, invocation_id=turn, after_seq=1))
    await session.open("e-2", subscriber="of-next")
    await session.say(session.event("a", "two", turn="e-2"), turn="e-2")
    for subscriber in ("of-turn", "of-session", "of-next"):
        (turn_news,) = (await session.ref.ask(p.Poll(subscriber=subscriber))).turns
        assert not turn_news.answers
        assert all(stored.seq for stored in turn_news.events)
