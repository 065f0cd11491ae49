"""What a driver has yet to be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.messages.protocol import AnyOutcome, News, StoredEvent, TurnNews
from actors.messages.session import SessionKey

POLL_S = 20.0
"""How long a poll waits when there is nothing to tell."""

FORGET_S = 120.0
"""A subscriber that has not polled for so long is gone."""


class _Box:
    def __init__(self, key: SessionKey, invocation_id: str) -> None:
        self.key = key
        self.invocation_id = invocation_id
        self.events: list[StoredEvent] = []
        self.outcome: AnyOutcome | None = None

    def news(self) -> TurnNews:
        return TurnNews(key=self.key, invocation_id=self.invocation_id, events=self.events, outcome=self.outcome)


class Mailbox:
    """The news of all turns that one subscriber follows, handed out by long polls.

    A reply that was lost on its way is given again: the subscriber says with each poll what it has got.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._boxes: dict[tuple[SessionKey, str], _Box] = {}
        self._filled = asyncio.Event()
        self._last = News()
        self._polled_s = clock()
        self._polls = 0

    def put(self, key: SessionKey, invocation_id: str, event: StoredEvent) -> None:
        """An event or a partial event of a turn."""
        self._box(key, invocation_id).events.append(event)

    def end(self, key: SessionKey, invocation_id: str, outcome: AnyOutcome) -> None:
        """The turn has ended."""
        self._box(key, invocation_id).outcome = outcome

    def _box(self, key: SessionKey, invocation_id: str) -> _Box:
        box = self._boxes.get((key, invocation_id))
        if box is None:
            box = self._boxes[key, invocation_id] = _Box(key, invocation_id)
        self._filled.set()
        return box

    async def poll(self, ack: int) -> News:
        """News behind number `ack`, as soon as there is some; an empty one when there is none for a while."""
        if ack < self._last.number:
            return self._last
        self._polls += 1
        try:
            async with asyncio.timeout(POLL_S):
                await self._filled.wait()
        except TimeoutError:
            pass
        finally:
            self._polls -= 1
            self._polled_s = self._clock()
        if ack < self._last.number:
            # Asked twice: an earlier poll, whose caller may have gone, has just taken the news along.
            return self._last
        boxes, self._boxes = self._boxes, {}
        self._filled.clear()
        self._last = News(number=self._last.number + 1, turns=[box.news() for box in boxes.values()])
        return self._last

    def is_abandoned(self) -> bool:
        """True when nobody has asked for a long time."""
        return not self._polls and self._clock() - self._polled_s > FORGET_S
