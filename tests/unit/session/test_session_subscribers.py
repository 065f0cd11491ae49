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


def raw(text: str, author: str = "root") -> bytes:
    return encode(Event(author=author, content=Content.of_text(text, role="model")))


@pytest.mark.parametrize("after_seq", [0, 2], ids=["nothing", "part"])
async def test_who_comes_after_a_pause_is_told_all_of_the_turn_that_it_does_not_have(
    session: SessionFixture, after_seq: int
) -> None:
    await session.open()
    await session.say(session.event("root", "may I?", call="c1"), session.event("root", "perhaps"))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    session = await session.restarted()
    # One that has a part may have answered.
    await session.answer("e-1", "c1", subscriber="d" if after_seq else "")
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=after_seq))
    await session.say(session.event("root", "done"), epoch=2)
    told = [(2, "may I?"), (3, "perhaps"), (5, "done")]
    assert (await session.news("d"))[1] == [each for each in told if each[0] > after_seq]


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


@pytest.mark.parametrize(
    "steps", [None, *range(12, 40, 4)], ids=lambda steps: "before" if steps is None else f"meanwhile-{steps}"
)
async def test_who_follows_a_turn_that_is_lost_is_told_when_its_session_is_deleted(
    session: SessionFixture, steps: int | None
) -> None:
    """`steps`: so many after the deletion has begun it comes to follow; None: before that."""
    following = p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1")
    await session.open(runner="runner/1")
    if steps is None:
        await session.ref.subscribe(following)
    assert await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0)) == p.Ack()
    deleting = asyncio.create_task(session.ref.ask(p.DeleteSessionRequest(key=KEY)))
    for _ in range(steps or 0):
        await asyncio.sleep(0)
    try:
        if steps is not None:
            await session.ref.subscribe(following)
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
