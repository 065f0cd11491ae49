"""An outbox, whatever happens: each complete event once and in order, of each response its beginning, and bounded room."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.rules.event_buffer import EventBuffer, cost
from actors.session.subscriptions import FORGET_S, LINGER_S, Outbox
from tests.support.fixtures.session_fixture import KEY, OTHER, Clock, settled
from tests.support.fixtures.streamed_events import complete, page, partial, texts
from tests.support.tries import tries

WHERE = (KEY, "e-1")
ROOM = 16_000
PAGE = 3


class Say(NamedTuple):
    """A piece of an answer, or with `ends` the whole of it."""

    author: str
    size: int
    ends: bool


class Burst(NamedTuple):
    """Several complete answers one after the other."""

    author: str
    size: int
    times: int


class Poll(NamedTuple):
    """The driver asks; its reply may be lost."""

    lost: bool


class Wait(NamedTuple):
    """Everything that can go on goes on."""


class Again(NamedTuple):
    """The driver subscribes again, with what it knows."""


steps = st.lists(
    st.one_of(
        st.builds(Say, st.sampled_from("ab"), st.sampled_from([1, 10, 100]), st.just(False)),
        st.builds(Say, st.sampled_from("ab"), st.sampled_from([1, 600, 1_000]), st.just(True)),
        st.builds(Burst, st.sampled_from("ab"), st.sampled_from([1, 600, 1_000]), st.integers(2, 12)),
        st.builds(Poll, st.booleans()),
        st.builds(Wait),
        st.builds(Again),
    ),
    max_size=60,
)


class Play:
    """A turn with its log, an outbox, and a driver that follows it."""

    def __init__(self) -> None:
        self.log: list[p.StoredEvent] = []
        self.clock = Clock()
        self.box = Outbox(self.clock, self.read, ROOM)
        self.box.follow(WHERE, 0, 0)
        self.largest = 0
        self.ack = 0
        self.heard: list[p.StoredEvent] = []
        self.outcome: p.AnyOutcome | None = None
        self.said: dict[str, str] = {"a": "", "b": ""}
        self.streams: dict[str, list[str]] = {"a": [""], "b": [""]}
        self.joined: set[tuple[str, int]] = set()

    async def read(self, key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        await asyncio.sleep(0)
        # The places between are somebody else's.
        found = [event for event in self.log if event.seq > after_seq][:PAGE]
        return p.TurnRead(events=found, read_to_seq=found[-1].seq if found else after_seq, more=len(found) == PAGE)

    def say(self, step: Say) -> None:
        if step.ends:
            event = complete(2 * len(self.log) + 2, "w" * step.size, step.author)
            self.log.append(event)
            self.streams[step.author].append("")
        else:
            text = f"{len(self.streams[step.author][-1])}." * step.size
            self.streams[step.author][-1] += text
            event = partial(text, step.author)
            if self.box._turns[WHERE].wants_answers:
                # It waits for the beginnings of the answers under way, which are another part's: heard from the middle on.
                self.joined.add((step.author, len(self.streams[step.author]) - 1))
        self.largest = max(self.largest, cost(event))
        self.box.put_events(WHERE, [event])

    async def poll(self, *, lost: bool = False, pause_s: float = 0.0) -> bool:
        self.clock.now_s += pause_s
        polling = asyncio.create_task(self.box.poll(self.ack))
        await settled()
        if not polling.done():
            polling.cancel()
            await settled()
            return False
        news = polling.result()
        assert sum(cost(event) for turn in news.turns for event in turn.events) <= ROOM + self.largest
        if not lost:
            self.ack = news.number
            for turn in news.turns:
                self.heard += turn.events
                self.outcome = turn.outcome or self.outcome
        return True

    def again(self) -> None:
        after_seq = max([event.seq for event in self.heard], default=0)
        # What came of running answers is heard from here on in the middle.
        self.joined |= {(author, len(streams) - 1) for author, streams in self.streams.items() if streams[-1]}
        self.box.follow(WHERE, after_seq, self.log[-1].seq if self.log else 0)

    def check_pieces(self) -> None:
        """Of every answer nothing is heard but how it begins."""
        place = {"a": 0, "b": 0}
        heard = {"a": "", "b": ""}
        for seq, author, text in texts(self.heard):
            if seq:
                place[author] += 1
                heard[author] = ""
            elif (author, place[author]) not in self.joined:
                heard[author] += text
                assert self.streams[author][place[author]].startswith(heard[author])


@settings(max_examples=tries(300))
@given(steps)
async def test_whatever_happens_a_driver_hears_each_complete_event_once_in_order_and_little_is_kept(steps: list[object]) -> None:
    play = Play()
    for step in steps:
        match step:
            case Say():
                play.say(step)
            case Burst():
                for _ in range(step.times):
                    play.say(Say(step.author, step.size, True))
            case Poll():
                await play.poll(lost=step.lost)
            case Again():
                # A driver subscribes again when its actor has lost everything; what it has not acknowledged is not on its way.
                while await play.poll(pause_s=LINGER_S):
                    # What has come is acknowledged by the next one. Nothing is left to a timer, which might tell it afterwards.
                    pass
                play.again()
            case _:
                play.clock.now_s += LINGER_S
                await settled()
        assert play.box.size <= ROOM + play.largest
    play.box.put_end(WHERE, p.Finished())
    for _ in range(200):
        if play.outcome is not None:
            break
        await play.poll()
    assert play.outcome == p.Finished()
    assert [event for event in play.heard if event.seq] == play.log
    play.check_pieces()


async def test_a_piece_that_comes_while_its_reader_is_behind_takes_the_rest_of_its_answer_with_it() -> None:
    play = Play()
    for _ in range(4):
        play.say(Say("a", 900, True))
    play.say(Say("b", 1, False))
    while await play.poll(pause_s=LINGER_S):
        pass
    assert [event.seq for event in play.heard] == [2, 4, 6, 8]
    play.say(Say("b", 1, False))
    play.say(Say("a", 1, False))
    play.say(Say("b", 1, True))
    play.say(Say("b", 1, False))
    await play.poll(pause_s=LINGER_S)
    assert [(seq, author) for seq, author, _ in texts(play.heard[4:])] == [(0, "a"), (10, "b"), (0, "b")]


def test_an_answer_stays_cut_off_whatever_was_complete_before_it() -> None:
    buffer = EventBuffer(max_bytes=2_000)
    log = [complete(seq, "x" * 600) for seq in (1, 2, 3, 4)]
    for event in log:
        buffer.put_event(event)
    buffer.take_events()
    buffer.put_event(partial("lost"))
    buffer.catch_up(page(log[2:]), 4)
    # Makes the buffer shrink.
    buffer.put_event(partial("y" * 600, "b"))
    assert not buffer.is_behind
    buffer.put_event(partial("headless"))
    assert [event.seq for event in buffer.take_events()] == [3, 4]


async def test_a_turn_that_goes_on_before_its_pause_was_told_is_told_from_where_its_follower_is() -> None:
    play = Play()
    play.say(Say("a", 1, True))
    await play.poll()
    play.say(Say("a", 1, True))
    play.box.put_end(WHERE, p.Paused())
    play.box.follow(WHERE, 5, 5)
    play.say(Say("a", 1, True))
    play.box.put_end(WHERE, p.Finished())
    while play.outcome is None:
        assert await play.poll()
    assert [event.seq for event in play.heard] == [2, 4, 6]
    assert play.outcome == p.Finished()


async def test_a_page_that_is_read_for_a_subscription_which_is_over_is_not_told() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    asked: list[int] = []

    async def read(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        asked.append(after_seq)
        await gates[len(asked) - 1].wait()
        return p.TurnRead(events=[complete(seq) for seq in range(after_seq + 1, 4)], read_to_seq=3)

    box = Outbox(Clock(), read, ROOM)
    box.follow(WHERE, 0, 3)
    await settled()
    box.forget_turn(WHERE)
    box.follow(WHERE, 2, 3)
    gates[0].set()
    await settled()
    gates[1].set()
    assert [event.seq for event in (await box.poll(0)).turns[0].events] == [3]
    assert asked == [0, 2]


async def test_a_page_that_is_read_is_told_a_subscriber_that_subscribes_again_and_wants_less() -> None:
    gate = asyncio.Event()

    async def read(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        await gate.wait()
        return p.TurnRead(events=[complete(seq) for seq in range(after_seq + 1, 4)], read_to_seq=3)

    box = Outbox(Clock(), read, ROOM)
    box.follow(WHERE, 0, 3)
    await settled()
    box.follow(WHERE, 2, 3)
    gate.set()
    await settled()
    # What the first subscription has asked for was not told yet.
    assert [event.seq for event in (await box.poll(0)).turns[0].events] == [1, 2, 3]


async def test_what_is_held_for_a_subscriber_that_subscribes_again_comes_next() -> None:
    play = Play()
    play.say(Say("a", 1, False))
    await play.poll()
    play.say(Say("a", 1, False))
    play.again()
    play.say(Say("a", 1, True))
    assert await play.poll(pause_s=1.0)
    assert [event.seq for event in play.heard] == [0, 0, 2]


async def test_many_turns_together_take_no_more_room_than_there_is() -> None:
    logs = {f"e-{number}": [complete(seq, "x" * 200) for seq in range(1, 31)] for number in range(40)}

    async def read(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        found = [event for event in logs[invocation_id] if event.seq > after_seq][:PAGE]
        return p.TurnRead(events=found, read_to_seq=found[-1].seq if found else after_seq, more=len(found) == PAGE)

    box = Outbox(Clock(), read, ROOM)
    for turn in logs:
        box.follow((KEY, turn), 0, 0)
    for place in range(30):
        for turn, log in logs.items():
            box.put_events((KEY, turn), [log[place]])
            assert box.size <= ROOM + 400
    for turn in logs:
        box.put_end((KEY, turn), p.Finished())
    heard: dict[str, list[p.StoredEvent]] = {turn: [] for turn in logs}
    ended: set[str] = set()
    ack = 0
    while len(ended) < len(logs):
        news = await asyncio.wait_for(box.poll(ack), 10)
        ack = news.number
        for of_turn in news.turns:
            heard[of_turn.invocation_id] += of_turn.events
            if of_turn.outcome is not None:
                ended.add(of_turn.invocation_id)
        # What is read of the last turn for which there is room may go beyond.
        assert box.size <= ROOM * 9 // 8 + 400
    assert heard == logs


async def nothing(key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
    """A log that nobody reads."""
    raise AssertionError((key, invocation_id, after_seq))


async def test_news_of_a_running_turn_gathers_for_a_moment_and_its_end_is_told_at_once() -> None:
    clock = Clock()
    box = Outbox(clock, nothing)
    for turn in (WHERE, (OTHER, "e-1")):
        box.follow(turn, 0, 0)
    box.put_events(WHERE, [complete(1)])
    assert [len(turn.events) for turn in (await box.poll(0)).turns] == [1], "the first news after a while does not wait"
    box.put_events(WHERE, [complete(2)])
    polling = asyncio.create_task(box.poll(1))
    await settled()
    assert not polling.done()
    box.put_events(WHERE, [complete(3)])
    assert [len(turn.events) for turn in (await polling).turns] == [2], "what came meanwhile goes along"
    box.put_events(WHERE, [complete(4)])
    polling = asyncio.create_task(box.poll(2))
    await settled()
    assert not polling.done()
    box.put_end(WHERE, p.Finished())
    await settled()
    assert polling.done()
    box.put_events((OTHER, "e-1"), [complete(1)])
    clock.now_s += LINGER_S
    polling = asyncio.create_task(box.poll(3))
    await settled()
    assert polling.done(), "nobody was told anything for a while"


async def test_a_poll_without_news_is_replied_to_when_it_has_waited_for_long() -> None:
    loop = asyncio.get_running_loop()
    box = Outbox(loop.time, nothing, poll_s=0.05)
    box.follow(WHERE, 0, 0)
    box.put_events(WHERE, [complete(1)])
    assert (await box.poll(0)).turns
    began_s = loop.time()
    assert not (await box.poll(1)).turns
    assert loop.time() - began_s >= 0.05, "the timer of the poll before is no shorter wait for this one"


async def test_an_outbox_with_a_poll_under_way_is_not_abandoned() -> None:
    clock = Clock()
    box = Outbox(clock, nothing)
    box.follow(WHERE, 0, 0)
    polling = asyncio.create_task(box.poll(0))
    await settled()
    clock.now_s = FORGET_S + 1
    assert not box.is_abandoned()
    box.put_end(WHERE, p.Finished())
    await polling
    assert not box.is_abandoned()
    clock.now_s += FORGET_S + 1
    assert box.is_abandoned()
