"""Which drivers follow which turns. Each driver has an outbox with the news that it has yet to fetch by long polls."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from actors.errors import RaygroveError
from actors.interfaces.clock import loop_time_s
from actors.messages.protocol.base import Ack, StoredEvent
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.protocol.subscriptions import WHOLE_SESSION, News, Poll, TurnNews, TurnRead, Unsubscribe
from actors.messages.session import SessionKey, TurnKey
from actors.rules.event_buffer import EventBuffer
from actors.rules.failures import failure
from actors.rules.partials import AnswersUnderWay

LAGGING = "lagging"
"""The figure of the subscribers that have news to fetch, and have polled lately."""

POLL_S = 20.0
"""How long a poll waits when there is no news."""

LINGER_S = 0.02
"""Shortest time between two replies to a poller; events in between are batched, since a reply costs about as much as a step of
the turn. The first news after a while, the end of a turn, and news for a reader that lags are sent at once.
"""

FORGET_S = 120.0
"""A subscriber that has not polled for so long is gone."""

MAX_BYTES = 8_000_000
"""News that is kept for one subscriber, of all its turns. A reply that waits to be acknowledged may be as large."""

ReadTurnPage = Callable[[SessionKey, str, int], Awaitable[TurnRead]]
"""Reads a page of a turn's events after a position from the log."""


class TurnOutbox(EventBuffer):
    """News of one turn that one subscriber has yet to fetch: its events, as a buffer has them, and its end.

    Args:
        after_seq: the last position that the subscriber knows.
        max_bytes: what it may hold.

    Attributes:
        outcome, opened_seq: how the turn has ended, and behind which event: see TurnNews.
        is_dropped: the turn has left the queue and has not begun: see TurnNews.
        wants_answers: the subscriber does not have the beginnings of the answers under way. It gets them when it has all complete
            events, and no partials before.
    """

    turn: TurnKey
    outcome: AnyOutcome | None = None
    opened_seq = 0
    is_dropped = wants_answers = False

    def can_take_answers(self) -> bool:
        """True when the next to fetch are the answers under way, if there are any."""
        return self.wants_answers and not self.is_behind

    def is_over(self) -> bool:
        """True when nothing follows but what is in the log, or held here."""
        return self.outcome is not None or self.is_dropped

    def take_news(self, answers: AnswersUnderWay | None) -> TurnNews:
        """Remove and return everything that is held here; and the answers under way, if they are wanted."""
        key, invocation_id = self.turn
        # All that was not delivered yet is held here.
        has_ended = self.is_over() and not self.is_behind
        beginnings: Sequence[StoredEvent] = ()
        if self.can_take_answers():
            self.wants_answers = False
            if answers is not None:
                beginnings = answers.partials()
                self.begin_anew(beginnings, answers.cut_off())
        return TurnNews(
            key=key,
            invocation_id=invocation_id,
            events=self.take_events(),
            outcome=self.outcome if has_ended else None,
            opened_seq=self.opened_seq,
            answers=beginnings,
            is_dropped=self.is_dropped and has_ended,
        )


class Outbox:
    """News of all turns that one subscriber follows, fetched by long polls.

    A reply that was lost on its way is sent again: the subscriber acknowledges with each poll the last News that it has. For a
    subscriber that polls seldom, or not at all, it keeps no more than there is room for, and reads the rest from the log.

    Args:
        max_bytes: what is kept at most, beside an eighth of it for each turn.
        answers: gives the answers under way in a turn.
        poll_s: how long a poll waits for news at most, in seconds; None: until there is some.

    Attributes:
        id: names it, so that a subscriber notices when another one has taken its place.
        size: bytes that it holds.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        read: ReadTurnPage,
        max_bytes: int = MAX_BYTES,
        answers: Callable[[TurnKey], AnswersUnderWay | None] = lambda _: None,
        poll_s: float | None = POLL_S,
    ) -> None:
        self._poll_s = poll_s
        self._clock = clock
        self._read = read
        self._answers = answers
        self._max_bytes = max_bytes
        self._turns: dict[TurnKey, TurnOutbox] = {}
        self._ready: dict[TurnKey, TurnOutbox] = {}
        self._behind: dict[TurnKey, TurnOutbox] = {}
        self._reader: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[News]] = []
        self._is_urgent = False
        # Three ways to reply to a poll: in the next pass of the event loop, after LINGER_S at most, and after `poll_s`.
        self._telling: asyncio.Handle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._sent_s = -math.inf
        self.id = uuid.uuid4().hex
        self._last = News(outbox=self.id)
        self._polled_s = clock()
        self.size = 0

    @property
    def has_news(self) -> bool:
        """True when there is something that its subscriber has yet to fetch."""
        return bool(self._ready or self._behind)

    def follow(self, turn: TurnKey, after_seq: int, head_seq: int) -> None:
        """Deliver a turn's events from now on, and before them those in the log after `after_seq` up to `head_seq`."""
        box = self._turns.get(turn)
        # One that stays goes on with what it holds.
        if box is None or box.is_over() or after_seq < box.delivered_seq:
            if box is not None:
                # It goes on after a pause of which the subscriber does not know yet, or from earlier: no event may be left out.
                after_seq, head_seq = min(after_seq, box.delivered_seq), max(head_seq, box.head_seq)
                self.forget_turn(turn)
            box = self._turns[turn] = TurnOutbox(after_seq, self._max_bytes // 8)
            box.turn = turn
        box.wants_answers = box.wants_answers or bool(self._answers(turn))
        self.expect(turn, head_seq)

    def expect(self, turn: TurnKey, head_seq: int) -> None:
        """Read from the log what it has of a turn up to `head_seq`, beyond what was delivered or is held here."""
        box = self._turns.get(turn)
        if box is not None:
            box.expect(head_seq)
            box.wants_answers = box.wants_answers or box.is_behind
            self._sort(box)
            self._read_on()

    def forget_turn(self, turn: TurnKey) -> None:
        """Deliver no more of a turn, which may be unknown."""
        box = self._turns.pop(turn, None)
        if box is not None:
            self.size -= box.size
            self._ready.pop(turn, None)
            self._behind.pop(turn, None)

    def put_events(self, turn: TurnKey, events: Iterable[StoredEvent]) -> None:
        """Add events or partials of a turn; those of a turn that is not followed are dropped."""
        box = self._turns.get(turn)
        if box is None:
            return
        for event in events:
            if box.wants_answers and not event.seq:
                continue
            held = box.size
            box.put_event(event, has_room=self.size < self._max_bytes)
            self.size += box.size - held
        self._sort(box)

    def put_answers(self, turn: TurnKey) -> None:
        """Deliver the answers under way from their beginnings."""
        box = self._turns.get(turn)
        if box is not None:
            box.wants_answers = True
            self._sort(box)

    def put_end(self, turn: TurnKey, outcome: AnyOutcome, opened_seq: int = 0) -> None:
        """Add the end of a turn. `opened_seq`: see TurnNews."""
        box = self._turns.get(turn)
        if box is not None:
            box.outcome = outcome
            box.opened_seq = opened_seq
            self._sort(box)

    def put_drop(self, turn: TurnKey) -> None:
        """Add that a turn has left the queue and has not begun."""
        box = self._turns.get(turn)
        if box is not None:
            box.is_dropped = True
            self._sort(box)

    def _sort(self, box: TurnOutbox) -> None:
        is_behind = box.is_behind
        has_ended = not is_behind and box.is_over()
        if has_ended or box.size or (box.can_take_answers() and self._answers(box.turn)):
            self._ready[box.turn] = box
            self._is_urgent = self._is_urgent or is_behind or has_ended
            self._tell_soon()
        if is_behind:
            self._behind[box.turn] = box

    async def poll(self, ack: int) -> News:
        """Return the News after number `ack`, as soon as there is news; an empty one when there is none for `poll_s` seconds.

        Polls that wait at the same time get the same News: the callers of the earlier ones may be gone.
        """
        self._polled_s = self._clock()
        if ack < self._last.number:
            return self._last
        news: asyncio.Future[News] = self._loop.create_future()
        self._waiting.append(news)
        self._read_on()
        self._tell_soon()
        if self._giving_up is None and self._poll_s is not None:
            self._giving_up = self._loop.call_later(self._poll_s, self._give_up)
        return await news

    def _tell_soon(self) -> None:
        """Have the polls that wait told what is ready: together with what comes in this pass of the event loop, as of a commit.

        If a reply was sent just now and nothing is urgent, together with what comes for a while.
        """
        if self._telling is not None or not self._waiting or not self._ready:
            return
        rest_s = 0.0 if self._is_urgent else self._sent_s + LINGER_S - self._clock()
        if rest_s <= 0.0:
            self._telling = self._loop.call_soon(self._tell)
        elif self._lingering is None:
            self._lingering = self._loop.call_later(rest_s, self._tell)

    def _give_up(self) -> None:
        """Reply to polls for which there is no news; if they have not waited for long, look again later.

        One timer serves many polls, most of which wait for milliseconds.
        """
        self._giving_up = None
        if not self._waiting or self._poll_s is None:
            return
        rest_s = self._polled_s + self._poll_s - self._clock()
        if rest_s > 0.0:
            self._giving_up = self._loop.call_later(rest_s, self._give_up)
        else:
            self._tell()

    def _tell(self) -> None:
        """Reply to the polls that wait with all that is ready."""
        for timer in (self._telling, self._lingering):
            if timer is not None:
                timer.cancel()
        self._telling = self._lingering = None
        waiting, self._waiting = self._waiting, []
        ready, self._ready = self._ready, {}
        self._is_urgent = False
        self._sent_s = self._polled_s = self._clock()
        self.size = 0
        self._last = News(number=self._last.number + 1, outbox=self.id, turns=[self._take(box) for box in ready.values()])
        for news in waiting:
            if not news.done():
                news.set_result(self._last)

    def _take(self, box: TurnOutbox) -> TurnNews:
        news = box.take_news(self._answers(box.turn))
        if news.outcome is not None or news.is_dropped:
            self._turns.pop(box.turn, None)
        return news

    def _read_on(self) -> None:
        """Read from the log what was left to it, for the turns whose earlier events were all delivered."""
        if self._behind and (self._reader is None or self._reader.done()):
            self._reader = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        # A page of one turn after the other, so that there is room for each page, however many turns lag.
        while self.size < self._max_bytes:
            box = next((box for box in self._behind.values() if not box.size), None)
            if box is None:
                return
            await self._read_page(box)

    async def _read_page(self, box: TurnOutbox) -> None:
        head_seq = box.head_seq
        failed: RaygroveError | None = None
        try:
            page = await self._read(*box.turn, box.after_seq)
        except RaygroveError as error:
            failed = error
        if self._behind.get(box.turn) is not box:
            # The subscriber has subscribed to the turn again meanwhile.
            return
        if failed is not None:
            # The turn itself is not affected; only this reader cannot get its events now, and may ask again later.
            box.give_up()
            box.outcome = failure(failed)
        else:
            box.catch_up(page, head_seq)
            self.size += box.size
        if not box.is_behind:
            del self._behind[box.turn]
        self._sort(box)

    def is_abandoned(self) -> bool:
        """True when the subscriber has not polled for FORGET_S seconds."""
        return not self._waiting and self._clock() - self._polled_s > FORGET_S

    def close(self) -> None:
        """Stop reading the log."""
        self._behind.clear()
        if self._reader is not None:
            self._reader.cancel()


_NO_OUTBOXES: Mapping[str, Outbox] = {}


class Subscriptions:
    """The subscribers of every turn, and their outboxes.

    Args:
        read: reads a turn's events after a position from the log, for subscribers that lag.
        poll_s: how long a poll waits for news at most, in seconds; None: until there is some.
    """

    def __init__(self, read: ReadTurnPage, clock: Callable[[], float] = loop_time_s, poll_s: float | None = POLL_S) -> None:
        self._poll_s = poll_s
        self._read = read
        self._clock = clock
        self._outboxes: dict[str, Outbox] = {}
        # By name in order, and no set: the same requests are replied to in the same order in every process.
        self._of_turn: dict[TurnKey, dict[str, Outbox]] = {}
        self._answers: dict[SessionKey, AnswersUnderWay] = {}
        self._polls = 0

    @property
    def counts(self) -> dict[str, int]:
        """Figures by name."""
        size = sum(outbox.size for outbox in self._outboxes.values())
        lagging = sum(outbox.has_news and not outbox.is_abandoned() for outbox in self._outboxes.values())
        return {"polls": self._polls, "subscribers": len(self._outboxes), "bytes_untold": size, LAGGING: lagging}

    def add(self, subscriber: str, key: SessionKey, invocation_id: str, after_seq: int, head_seq: int = 0) -> None:
        """Deliver a turn to a subscriber from now on, and before that what its log holds.

        Args:
            subscriber: "" adds nothing.
            after_seq: the last position that the subscriber knows.
            head_seq: the last position that is on disk.
        """
        if subscriber:
            turn, outbox = (key, invocation_id), self._outbox(subscriber)
            self._of_turn.setdefault(turn, {})[subscriber] = outbox
            outbox.follow(turn, after_seq, head_seq)

    def add_ended(
        self,
        subscriber: str,
        key: SessionKey,
        invocation_id: str,
        after_seq: int,
        head_seq: int,
        outcome: AnyOutcome,
        opened_seq: int,
    ) -> None:
        """Deliver a turn that has ended to a subscriber: see `add`, and TurnNews for `opened_seq`."""
        outbox = self._outbox(subscriber)
        outbox.follow((key, invocation_id), after_seq, head_seq)
        outbox.put_end((key, invocation_id), outcome, opened_seq)

    def publish(self, key: SessionKey, invocation_id: str, events: Sequence[StoredEvent]) -> None:
        """Deliver new events or partials of a turn to its subscribers."""
        if self._answers and (answers := self._answers.get(key)) is not None:
            for event in events:
                if event.seq:
                    answers.complete(event.raw)
        for turn, outbox in self._followers(key, invocation_id):
            outbox.put_events(turn, events)

    def expect(self, key: SessionKey, invocation_id: str, head_seq: int) -> None:
        """Deliver what the log has of a session's open turn, up to `head_seq`, and the subscribers do not."""
        for turn, outbox in self._followers(key, invocation_id):
            outbox.expect(turn, head_seq)

    def publish_message(self, key: SessionKey, event: StoredEvent) -> None:
        """Deliver a user's event to the subscribers of the whole session."""
        for turn, outbox in self._followers(key):
            outbox.put_events(turn, [event])

    def _followers(self, key: SessionKey, *invocation_ids: str) -> Iterator[tuple[TurnKey, Outbox]]:
        """The outboxes of the subscribers of a turn and of its whole session, each with which of them it follows."""
        for turn in [(key, each) for each in (*invocation_ids, WHOLE_SESSION)]:
            for outbox in self._of_turn.get(turn, _NO_OUTBOXES).values():
                yield turn, outbox

    def answers(self, key: SessionKey, invocation_id: str) -> AnswersUnderWay:
        """The answers that are under way in a session's open turn, as streamed so far, to be changed in place."""
        found = self._answers.get(key)
        if found is None or found.invocation_id != invocation_id:
            found = self._answers[key] = AnswersUnderWay(invocation_id)
        return found

    def _answers_of(self, turn: TurnKey) -> AnswersUnderWay | None:
        """The answers under way for the subscribers of a turn, which may wait in line behind the one that gives them."""
        key, invocation_id = turn
        found = self._answers.get(key)
        return found if found is not None and invocation_id in (found.invocation_id, WHOLE_SESSION) else None

    async def _read_turn(self, key: SessionKey, invocation_id: str, after_seq: int) -> TurnRead:
        """Read a page of a turn. An answer whose event it has was stored by a write whose outcome could not be told."""
        page = await self._read(key, invocation_id, after_seq)
        if (answers := self._answers.get(key)) is not None:
            answers.complete_stored(page.events)
        return page

    def drop_answers(self, key: SessionKey, runs: Iterable[int] | None = None) -> None:
        """Forget what has been streamed by runs that were lost; None: by all."""
        if key in self._answers:
            self._answers[key].drop_runs(runs)

    def forget_answers(self, key: SessionKey) -> None:
        """Forget all answers of a session: its open turn has ended."""
        self._answers.pop(key, None)

    def publish_answers(self, key: SessionKey, invocation_id: str) -> None:
        """Deliver the answers under way from their beginnings to the subscribers of a turn."""
        for turn, outbox in self._followers(key, invocation_id):
            outbox.put_answers(turn)

    def publish_end(self, key: SessionKey, invocation_id: str, outcome: AnyOutcome, opened_seq: int = 0) -> None:
        """Deliver the end of a turn to its subscribers, which follow it no longer. `opened_seq`: see TurnNews."""
        turn = (key, invocation_id)
        for outbox in self._of_turn.pop(turn, _NO_OUTBOXES).values():
            outbox.put_end(turn, outcome, opened_seq)

    def publish_dropped(self, key: SessionKey, invocation_id: str) -> None:
        """Tell the subscribers of a turn that it has left the queue and has not begun; they follow it no longer."""
        turn = (key, invocation_id)
        for outbox in self._of_turn.pop(turn, _NO_OUTBOXES).values():
            outbox.put_drop(turn)

    async def poll(self, message: Poll) -> News:
        """Reply with the news of a subscriber, as soon as there is some.

        A subscriber that was not known gets that at once: see News.
        """
        self._polls += 1
        is_known = message.subscriber in self._outboxes
        outbox = self._outbox(message.subscriber)
        if not is_known or message.outbox not in ("", outbox.id):
            return News(known=False, outbox=outbox.id)
        return await outbox.poll(message.ack)

    async def unsubscribe(self, message: Unsubscribe) -> Ack:
        """Forget a subscriber, or that it follows one turn."""
        if message.key is None:
            self.remove(message.subscriber)
            return Ack()
        turn = (message.key, message.invocation_id)
        self._unfollow(turn, message.subscriber)
        if message.subscriber in self._outboxes:
            self._outboxes[message.subscriber].forget_turn(turn)
        return Ack()

    def remove(self, subscriber: str) -> None:
        """Forget a subscriber, which may be unknown."""
        outbox = self._outboxes.pop(subscriber, None)
        if outbox is not None:
            outbox.close()
        for turn in list(self._of_turn):
            self._unfollow(turn, subscriber)

    def _unfollow(self, turn: TurnKey, subscriber: str) -> None:
        followers = self._of_turn.get(turn, {})
        followers.pop(subscriber, None)
        if not followers:
            self._of_turn.pop(turn, None)

    def close(self) -> None:
        """Forget all subscribers."""
        for subscriber in list(self._outboxes):
            self.remove(subscriber)

    def _outbox(self, subscriber: str) -> Outbox:
        outbox = self._outboxes.get(subscriber)
        if outbox is None:
            for name in [name for name, box in self._outboxes.items() if box.is_abandoned()]:
                self.remove(name)
            outbox = self._outboxes[subscriber] = Outbox(
                self._clock, self._read_turn, answers=self._answers_of, poll_s=self._poll_s
            )
        return outbox
