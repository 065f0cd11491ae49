"""Who is told what of a turn: in order, once, and again when a reply was lost."""

from __future__ import annotations

import asyncio

import msgspec

from actors import Content, Event
from actors.errors import TurnCancelledError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.session.subscribers.outbox import FORGET_S, LINGER_S, Outbox
from actors.session.subscribers.subscriptions import Subscriptions
from tests.support.session_fixture import KEY, OTHER, Clock, SessionFixture, settled

WHERE = (KEY, "e-1")


async def nothing(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
    """A log that nobody reads."""
    raise AssertionError((key, invocation_id, after_seq))


def raw(text: str, author: str = "root") -> bytes:
    return encode(Event(author=author, content=Content.of_text(text, role="model")))


def mailbox(clock: Clock | None = None) -> Outbox:
    """A mailbox of a subscriber that follows two turns."""
    made = Outbox(clock or Clock(), nothing)
    made.follow(WHERE, 0, 0)
    made.follow((OTHER, "e-1"), 0, 0)
    return made


async def test_a_subscriber_is_told_everything_in_order_but_not_the_users_message(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    piece = msgspec.structs.replace(desk.event("root", "on"), partial=True)
    await desk.ref.tell_partial(p.TellPartial(turn=p.TurnRef(KEY, "e-1", 1), events=[encode(piece)]))
    await desk.say(desk.event("root", "one"), desk.event("root", "two"))
    await desk.say(desk.event("a", "three"))
    await desk.close()
    assert await desk.news("d") == (1, [(0, "on"), (2, "one"), (3, "two"), (4, "three")], ["Finished"])


async def test_a_poll_waits_for_news(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    polling = asyncio.create_task(desk.news("d"))
    await settled()
    assert not polling.done()
    await desk.say(desk.event("root", "one"))
    assert await polling == (1, [(2, "one")], [])
    polling = asyncio.create_task(desk.news("d", ack=1))
    await desk.close()
    assert await polling == (2, [], ["Finished"])


async def test_news_of_a_running_turn_gathers_for_a_moment_and_its_end_is_told_at_once() -> None:
    clock = Clock()
    box = mailbox(clock)
    box.put(WHERE, [p.StoredEvent(1, raw("first"))])
    assert [len(turn.events) for turn in (await box.poll(0)).turns] == [1], "the first news after a while does not wait"
    box.put(WHERE, [p.StoredEvent(2, raw("one"))])
    polling = asyncio.create_task(box.poll(1))
    await settled()
    assert not polling.done()
    box.put(WHERE, [p.StoredEvent(3, raw("two"))])
    assert [len(turn.events) for turn in (await polling).turns] == [2], "what came meanwhile goes along"
    box.put(WHERE, [p.StoredEvent(4, raw("last"))])
    polling = asyncio.create_task(box.poll(2))
    await settled()
    assert not polling.done()
    box.end(WHERE, p.Finished())
    await settled()
    assert polling.done()
    box.put((OTHER, "e-1"), [p.StoredEvent(1, raw("of another"))])
    clock.now_s += LINGER_S
    polling = asyncio.create_task(box.poll(3))
    await settled()
    assert polling.done(), "nobody was told anything for a while"


async def test_partial_events_are_never_stored(desk: SessionFixture) -> None:
    await desk.open()
    piece = msgspec.structs.replace(desk.event("root", "on"), partial=True)
    await desk.ref.tell_partial(p.TellPartial(turn=p.TurnRef(KEY, "e-1", 1), events=[encode(piece)]))
    assert desk.places() == [1]


async def test_several_subscribers_are_each_told_everything(desk: SessionFixture) -> None:
    await desk.open(subscriber="d1")
    await desk.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1"))
    await desk.say(desk.event("root", "one"))
    for name in ("d1", "d2"):
        assert await desk.news(name) == (1, [(2, "one")], [])


async def test_who_comes_later_is_told_what_was_said_already_and_then_what_follows(desk: SessionFixture) -> None:
    await desk.turn("e-0", "before")
    await desk.open("e-1")
    for text in ("one", "two"):
        await desk.say(desk.event("root", text))
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    await desk.say(desk.event("root", "three"))
    await desk.close()
    assert await desk.news("d") == (1, [(4, "one"), (5, "two"), (6, "three")], ["Finished"])


async def test_who_has_part_of_a_turn_is_told_only_what_is_behind_it(desk: SessionFixture) -> None:
    await desk.open("e-1")
    await desk.say(desk.event("root", "one"), desk.event("root", "two"))
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=2))
    assert await desk.news("d") == (1, [(3, "two")], [])


async def test_a_turn_that_has_ended_is_told_to_its_end_also_after_a_restart(desk: SessionFixture) -> None:
    await desk.turn("e-1", "one", "two")
    await desk.turn("e-2", "other")
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert await desk.news("d") == (1, [(2, "one"), (3, "two")], ["Finished"])
    again = await desk.restarted()
    await again.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert await again.news("d") == (1, [(2, "one"), (3, "two")], ["Finished"])
    await again.ref.stop()


async def test_a_long_turn_is_told_from_the_store_where_memory_ends(desk: SessionFixture) -> None:
    await desk.open("e-1")
    await asyncio.gather(*(desk.say(desk.event("root", f"{number}")) for number in range(300)))
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    told: list[tuple[int, str]] = []
    ack = 0
    while len(told) < 300:
        ack, events, _ = await desk.news("d", ack)
        told += events
    assert told == [(number + 2, f"{number}") for number in range(300)]


async def test_who_follows_a_turn_learns_where_it_is(desk: SessionFixture) -> None:
    following = p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1")
    await desk.open("e-1")
    assert await desk.ref.subscribe(following) == "running"
    waiting = asyncio.create_task(desk.open("e-2"))
    await settled()
    assert await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-2")) == "waiting"
    await desk.ref.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-2"))
    await asyncio.wait([waiting])
    again = await desk.restarted()
    # The Session actor has been started again, and no Runner has said yet that it runs the turn.
    assert await again.ref.subscribe(following) == "lost"
    await again.ref.resume_turn(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner", epoch=1))
    assert await again.ref.subscribe(following) == "running"
    await again.close("e-1", p.Paused(agent="root"))
    assert await again.ref.subscribe(following) == "ended"
    assert isinstance(waiting.exception(), TurnCancelledError)
    await again.ref.stop()


async def test_turns_of_a_runner_that_was_started_again_are_lost_until_they_are_resumed(desk: SessionFixture) -> None:
    await desk.open("e-1")
    await desk.ref.list_open_turns(p.ListOpenTurns(app="app", runner="another"))
    following = p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1")
    assert await desk.ref.subscribe(following) == "lost"
    assert await desk.ask_to_open("e-2", runner="another") == p.ResumeFirst(invocation_id="e-1")
    resumed = await desk.ref.resume_turn(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="another"))
    assert isinstance(resumed, p.TurnResumed)
    assert (resumed.epoch, resumed.seq) == (2, 1)
    assert await desk.ref.subscribe(following) == "running"
    await desk.close("e-1", epoch=2)
    assert await desk.ref.resume_turn(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="another")) == p.NothingToResume()


async def test_a_turn_in_line_can_be_followed(desk: SessionFixture) -> None:
    await desk.open("e-1")
    waiting = asyncio.create_task(desk.open("e-2"))
    await settled()
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-2"))
    await desk.say(desk.event("root", "not yours"))
    await desk.close("e-1")
    await waiting
    await desk.say(desk.event("root", "yours", turn="e-2"), turn="e-2")
    assert await desk.news("d") == (1, [(4, "yours")], [])


async def test_a_reply_that_was_lost_is_given_again(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    await desk.say(desk.event("root", "one"))
    first = await desk.news("d")
    await desk.say(desk.event("root", "two"))
    assert await desk.news("d") == first
    assert await desk.news("d", ack=1) == (2, [(3, "two")], [])
    assert await desk.news("d", ack=1) == (2, [(3, "two")], [])


async def test_news_that_a_forgotten_poll_took_along_are_given_to_the_next(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    forgotten = asyncio.create_task(desk.news("d"))
    await settled()
    asked_again = asyncio.create_task(desk.news("d"))
    await settled()
    await desk.say(desk.event("root", "one"))
    assert await asked_again == (1, [(2, "one")], [])
    assert await forgotten == (1, [(2, "one")], [])


async def test_who_is_not_known_any_more_is_told_so(desk: SessionFixture) -> None:
    assert not (await desk.ref.poll(p.Poll(subscriber="d", ack=3))).known
    await desk.open(subscriber="d")
    await desk.ref.unsubscribe(p.Unsubscribe(subscriber="d"))
    assert not (await desk.ref.poll(p.Poll(subscriber="d", ack=1))).known
    await desk.ref.unsubscribe(p.Unsubscribe(subscriber="nobody"))


async def test_a_mailbox_that_nobody_empties_is_given_up_when_another_is_made(desk: SessionFixture) -> None:
    await desk.open(subscriber="gone")
    await desk.say(desk.event("root", "one"))
    await desk.news("gone")
    desk.clock.now_s = FORGET_S + 1
    await desk.ref.subscribe(p.Subscribe(subscriber="new", key=KEY, invocation_id="e-1"))
    assert not (await desk.ref.poll(p.Poll(subscriber="gone", ack=1))).known
    await desk.say(desk.event("root", "two"))
    assert (await desk.news("new"))[1] == [(2, "one"), (3, "two")]


async def test_of_many_subscribers_who_never_ask_none_is_kept_for_long(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    for number in range(100):
        await desk.ref.subscribe(p.Subscribe(subscriber=f"gone-{number}", key=KEY, invocation_id="e-1"))
    await desk.say(desk.event("root", "one"))
    counts = (await desk.ref.statistics()).counts
    assert counts["subscribers"] == 101
    assert counts["bytes_untold"] > 0
    desk.clock.now_s = FORGET_S + 1
    await desk.ref.subscribe(p.Subscribe(subscriber="new", key=KEY, invocation_id="e-1", after_seq=2))
    counts = (await desk.ref.statistics()).counts
    assert (counts["subscribers"], counts["bytes_untold"]) == (1, 0)
    await desk.say(desk.event("root", "two"))
    assert (await desk.news("new"))[1] == [(3, "two")]


async def test_a_turn_of_any_length_is_told_in_replies_of_bounded_size_to_who_comes_late(desk: SessionFixture) -> None:
    await desk.open("e-1")
    for _ in range(40):
        await desk.say(desk.event("root", "x" * 100_000))
    await desk.close()
    await desk.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    told: list[int] = []
    ack, ends = 0, list[str]()
    while not ends:
        ack, events, ends = await desk.news("d", ack)
        assert len(events) <= 10
        told += [seq for seq, _ in events]
        assert (await desk.ref.statistics()).counts["bytes_untold"] <= 1_000_000
    assert told == list(range(2, 42))


async def test_a_mailbox_with_a_poll_under_way_is_not_abandoned() -> None:
    clock = Clock()
    box = mailbox(clock)
    polling = asyncio.create_task(box.poll(0))
    await settled()
    clock.now_s = FORGET_S + 1
    assert not box.is_abandoned()
    box.end(WHERE, p.Finished())
    await polling
    assert not box.is_abandoned()
    clock.now_s += FORGET_S + 1
    assert box.is_abandoned()


async def test_news_of_several_turns_come_together_each_in_its_order() -> None:
    box = mailbox()
    box.put(WHERE, [p.StoredEvent(1, raw("a"))])
    box.put((OTHER, "e-1"), [p.StoredEvent(1, raw("b"))])
    box.put(WHERE, [p.StoredEvent(2, raw("c"))])
    box.end(WHERE, p.Finished())
    news = await box.poll(0)
    assert [(turn.key, [event.seq for event in turn.events], turn.outcome) for turn in news.turns] == [
        (KEY, [1, 2], p.Finished()),
        (OTHER, [1], None),
    ]


async def test_a_poll_that_is_cancelled_takes_nothing_along() -> None:
    box = mailbox()
    polling = asyncio.create_task(box.poll(0))
    await settled()
    polling.cancel()
    await settled()
    box.put(WHERE, [p.StoredEvent(1, raw("a"))])
    assert [event.seq for event in (await box.poll(0)).turns[0].events] == [1]


async def test_nobody_follows_a_turn_that_has_ended() -> None:
    followers = Subscriptions(nothing, Clock())
    followers.add("d", KEY, "e-1", 0)
    followers.add("", KEY, "e-1", 0)
    followers.publish_end(KEY, "e-1", p.Finished())
    followers.publish(KEY, "e-1", [p.StoredEvent(9, raw("late"))])
    followers.publish_end(KEY, "e-1", p.Cancelled())
    news = await followers.poll(p.Poll(subscriber="d"))
    assert [(turn.events, turn.outcome) for turn in news.turns] == [([], p.Finished())]


async def test_who_asks_for_a_turn_at_the_moment_it_ends_is_told_of_its_end(desk: SessionFixture) -> None:
    await desk.open("e-1", subscriber="d1")
    ending = asyncio.create_task(desk.say(desk.event("root", "bye"), outcome=p.Finished(agent="root"), selected="root"))
    assert await desk.news("d1") == (1, [(2, "bye")], ["Finished"])
    await desk.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1"))
    assert await asyncio.wait_for(desk.news("d2"), 5) == (1, [(2, "bye")], ["Finished"])
    assert await ending == 2
