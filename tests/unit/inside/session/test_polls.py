"""Polls of an outbox: which wait, which are answered at once, and with what."""

from __future__ import annotations

import asyncio

from actors import Content, Event
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.session.subscribers.outbox import FORGET_S, LINGER_S, Outbox
from actors.session.subscribers.subscriptions import Subscriptions
from tests.support.fixtures.session_fixture import KEY, OTHER, Clock, settled

WHERE = (KEY, "e-1")


async def nothing(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
    """A log that nobody reads."""
    raise AssertionError((key, invocation_id, after_seq))


def raw(text: str, author: str = "root") -> bytes:
    return encode(Event(author=author, content=Content.of_text(text, role="model")))


def outbox(clock: Clock | None = None) -> Outbox:
    """The outbox of a subscriber that follows two turns."""
    made = Outbox(clock or Clock(), nothing)
    made.follow(WHERE, 0, 0)
    made.follow((OTHER, "e-1"), 0, 0)
    return made


async def test_news_of_a_running_turn_gathers_for_a_moment_and_its_end_is_told_at_once() -> None:
    clock = Clock()
    box = outbox(clock)
    box.put_events(WHERE, [p.StoredEvent(1, raw("first"))])
    assert [len(turn.events) for turn in (await box.poll(0)).turns] == [1], "the first news after a while does not wait"
    box.put_events(WHERE, [p.StoredEvent(2, raw("one"))])
    polling = asyncio.create_task(box.poll(1))
    await settled()
    assert not polling.done()
    box.put_events(WHERE, [p.StoredEvent(3, raw("two"))])
    assert [len(turn.events) for turn in (await polling).turns] == [2], "what came meanwhile goes along"
    box.put_events(WHERE, [p.StoredEvent(4, raw("last"))])
    polling = asyncio.create_task(box.poll(2))
    await settled()
    assert not polling.done()
    box.put_end(WHERE, p.Finished())
    await settled()
    assert polling.done()
    box.put_events((OTHER, "e-1"), [p.StoredEvent(1, raw("of another"))])
    clock.now_s += LINGER_S
    polling = asyncio.create_task(box.poll(3))
    await settled()
    assert polling.done(), "nobody was told anything for a while"


async def test_a_mailbox_with_a_poll_under_way_is_not_abandoned() -> None:
    clock = Clock()
    box = outbox(clock)
    polling = asyncio.create_task(box.poll(0))
    await settled()
    clock.now_s = FORGET_S + 1
    assert not box.is_abandoned()
    box.put_end(WHERE, p.Finished())
    await polling
    assert not box.is_abandoned()
    clock.now_s += FORGET_S + 1
    assert box.is_abandoned()


async def test_news_of_several_turns_come_together_each_in_its_order() -> None:
    box = outbox()
    box.put_events(WHERE, [p.StoredEvent(1, raw("a"))])
    box.put_events((OTHER, "e-1"), [p.StoredEvent(1, raw("b"))])
    box.put_events(WHERE, [p.StoredEvent(2, raw("c"))])
    box.put_end(WHERE, p.Finished())
    news = await box.poll(0)
    assert [(turn.key, [event.seq for event in turn.events], turn.outcome) for turn in news.turns] == [
        (KEY, [1, 2], p.Finished()),
        (OTHER, [1], None),
    ]


async def test_polls_that_wait_together_are_told_the_same() -> None:
    box = outbox()
    polling = [asyncio.create_task(box.poll(0)) for _ in range(2)]
    await settled()
    box.put_events(WHERE, [p.StoredEvent(1, raw("a"))])
    first, second = [await each for each in polling]
    assert first is second
    assert [event.seq for event in first.turns[0].events] == [1]
    assert await box.poll(0) is first, "the caller of neither may have got it"


async def test_a_poll_without_news_is_replied_to_when_it_has_waited_for_long() -> None:
    loop = asyncio.get_running_loop()
    box = Outbox(loop.time, nothing, poll_s=0.05)
    box.follow(WHERE, 0, 0)
    box.put_events(WHERE, [p.StoredEvent(1, raw("a"))])
    assert (await box.poll(0)).turns
    began_s = loop.time()
    assert not (await box.poll(1)).turns
    assert loop.time() - began_s >= 0.05, "the timer of the poll before is no shorter wait for this one"


async def test_nobody_follows_a_turn_that_has_ended() -> None:
    followers = Subscriptions(nothing, Clock())
    followers.add("d", KEY, "e-1", 0)
    followers.add("", KEY, "e-1", 0)
    followers.publish_end(KEY, "e-1", p.Finished())
    followers.publish(KEY, "e-1", [p.StoredEvent(9, raw("late"))])
    followers.publish_end(KEY, "e-1", p.Cancelled())
    news = await followers._outbox("d").poll(0)
    assert [(turn.events, turn.outcome) for turn in news.turns] == [([], p.Finished())]
