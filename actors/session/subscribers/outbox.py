"""What a driver has yet to be told."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from actors.errors import RaygroveError, name_and_args
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome, Failed
from actors.messages.protocol.subscriptions import News, TurnNews, TurnRead
from actors.messages.session import SessionKey
from actors.rules.delivery.event_buffer import EventBuffer

POLL_S = 20.0
"""How long a poll waits when there is nothing to tell."""

LINGER_S = 0.02
"""What happens within a turn is told so often at most, and then all at once: each reply costs as much as a piece of the turn's
work. The first news after a while, the end of a turn, and what a reader has missed, are told at once.
"""

FORGET_S = 120.0
"""A subscriber that has not polled for so long is gone."""

MOST_BYTES = 8_000_000
"""What is kept for one subscriber, of all the turns that it follows. A reply that waits to be acknowledged may be as large."""

Where = tuple[SessionKey, str]
Read = Callable[[SessionKey, str, int], Awaitable[TurnRead]]
"""Reads a turn's events behind a place from the log."""


class TurnOutbox:
    """The news of one turn that one subscriber has yet to fetch."""

    def __init__(self, where: Where, after_seq: int, most_bytes: int) -> None:
        self.where = where
        self.backlog = EventBuffer(after_seq, most_bytes)
        self.outcome: AnyOutcome | None = None

    def has_news(self) -> bool:
        """True when there is something to fetch."""
        return len(self.backlog) > 0 or self.has_ended()

    def has_ended(self) -> bool:
        """True when all that is not told yet is held here, and nothing will follow."""
        return self.outcome is not None and not self.backlog.is_behind

    def take(self) -> TurnNews:
        """Everything held here, which is held no more."""
        key, invocation_id = self.where
        outcome = self.outcome if self.has_ended() else None
        return TurnNews(key=key, invocation_id=invocation_id, events=self.backlog.take(), outcome=outcome)


class Outbox:
    """The news of all turns that one subscriber follows, handed out by long polls.

    A reply that was lost on its way is given again: the subscriber says with each poll what it has got. For one that polls
    seldom, or not at all, no more is kept than there is room for; it is told the rest from the log.

    Args:
        clock: seconds that only go forward.
        read: reads the log.
        most_bytes: what is kept, but for a turn's share: an eighth of it.
    """

    def __init__(self, clock: Callable[[], float], read: Read, most_bytes: int = MOST_BYTES) -> None:
        self._clock = clock
        self._read = read
        self._most_bytes = most_bytes
        self._boxes: dict[Where, TurnOutbox] = {}
        self._ready: dict[Where, TurnOutbox] = {}
        self._behind: dict[Where, TurnOutbox] = {}
        self._reader: asyncio.Task[None] | None = None
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._told_s = -math.inf
        self.id = uuid.uuid4().hex
        self._last = News(mailbox=self.id)
        self._polled_s = clock()
        self._polls = 0
        self.size = 0

    def follow(self, where: Where, after_seq: int, head_seq: int) -> None:
        """Tell of a turn from now on; what stands in the log behind `after_seq`, up to `head_seq`, first."""
        old = self._boxes.get(where)
        if old is not None:
            # Followed already, or it goes on after a pause of which the subscriber has not heard: nothing is passed over.
            after_seq, head_seq = min(after_seq, old.backlog.told_seq), max(head_seq, old.backlog.head_seq)
            self.size -= old.backlog.size
            self._ready.pop(where, None)
            self._behind.pop(where, None)
        box = self._boxes[where] = TurnOutbox(where, after_seq, self._most_bytes // 8)
        box.backlog.expect(head_seq)
        self._sort(box)
        self._read_on()

    def put(self, where: Where, events: Iterable[StoredEvent]) -> None:
        """Events or pieces of a turn. Nothing is kept of one that is not followed."""
        box = self._boxes.get(where)
        if box is None:
            return
        backlog = box.backlog
        for event in events:
            held = backlog.size
            backlog.put(event, has_room=self.size < self._most_bytes)
            self.size += backlog.size - held
        self._sort(box)

    def end(self, where: Where, outcome: AnyOutcome) -> None:
        """The turn has ended."""
        box = self._boxes.get(where)
        if box is not None:
            box.outcome = outcome
            self._sort(box)

    def _sort(self, box: TurnOutbox) -> None:
        if box.has_news():
            self._ready[box.where] = box
            self._filled.set()
            if box.has_ended() or box.backlog.is_behind:
                self._urgent.set()
        if box.backlog.is_behind:
            self._behind[box.where] = box

    async def poll(self, ack: int) -> News:
        """News behind number `ack`, as soon as there is some; an empty one when there is none for a while."""
        if ack < self._last.number:
            return self._last
        self._polls += 1
        self._read_on()
        try:
            async with asyncio.timeout(POLL_S):
                await self._filled.wait()
                await self._linger()
        except TimeoutError:
            pass
        finally:
            self._polls -= 1
            self._polled_s = self._clock()
        if ack < self._last.number:
            # Asked twice: an earlier poll, whose caller may have gone, has just taken the news along.
            return self._last
        ready, self._ready = self._ready, {}
        self._filled.clear()
        self._urgent.clear()
        self._told_s = self._clock()
        self.size = 0
        self._last = News(number=self._last.number + 1, mailbox=self.id, turns=[self._told(box) for box in ready.values()])
        return self._last

    async def _linger(self) -> None:
        """Let more come before news is told, if some was told just now and nothing of it is urgent."""
        rest_s = self._told_s + LINGER_S - self._clock()
        if rest_s > 0 and not self._urgent.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._urgent.wait()

    def _told(self, box: TurnOutbox) -> TurnNews:
        if box.has_ended():
            self._boxes.pop(box.where, None)
        return box.take()

    # ------------------------------------------------------------------------------------------------- from the log
    def _read_on(self) -> None:
        """See that what was left to the log is read from there, where all that came before it has been told."""
        if self._behind and (self._reader is None or self._reader.done()):
            self._reader = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        # A page of one turn after the other, so that what is read has room, however many are behind.
        while self.size < self._most_bytes:
            box = next((box for box in self._behind.values() if not len(box.backlog)), None)
            if box is None:
                return
            await self._read_page(box)

    async def _read_page(self, box: TurnOutbox) -> None:
        backlog = box.backlog
        head_seq = backlog.head_seq
        failed: RaygroveError | None = None
        try:
            page = await self._read(*box.where, backlog.after_seq)
        except RaygroveError as error:
            failed = error
        if self._behind.get(box.where) is not box:
            # Another subscription of the turn has come between.
            return
        if failed is not None:
            # The turn is what it is; but this reader cannot be told of it, and may ask again later.
            backlog.give_up()
            code, args = name_and_args(failed)
            box.outcome = Failed(error_code=code, error_message=str(failed), error_args=args)
        else:
            backlog.catch_up(page, head_seq)
            self.size += backlog.size
        if not backlog.is_behind:
            del self._behind[box.where]
        self._sort(box)

    # ------------------------------------------------------------------------------------------------- forgetting
    def is_abandoned(self) -> bool:
        """True when nobody has asked for a long time."""
        return not self._polls and self._clock() - self._polled_s > FORGET_S

    def close(self) -> None:
        """Nobody asks any more."""
        self._behind.clear()
        if self._reader is not None:
            self._reader.cancel()
