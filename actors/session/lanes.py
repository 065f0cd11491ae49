"""What requests to a Session actor wait for before their handlers begin, by their lanes: see `Lane`. Features add to it.

Requests of programs that only want to know something have a line of their own, so that turns do not wait for them:

- A few requests are answered at a time. The store has one thread, which works on one request after the other: a turn that reads
  from it has so many before it at most, however many programs ask.
- Users take turns, by their weights. A request about all users is one of a user of its own.
- The line is bounded by number. Beyond that a request is refused with the time to come again; nothing was done for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from actors.actor import Handler, KeyedLocks
from actors.errors import OverloadedError
from actors.messages.config import Limits
from actors.messages.protocol.base import Lane, Message, Request, key_of
from actors.messages.session import SessionKey
from actors.rules.queues import FairQueue, retry_after_s, weights

AT_ONCE = 32
"""Requests that are answered at the same time."""


class _Place:
    """The place of a request in the line; `is_free` is done when it is let in."""

    __slots__ = ("is_free", "since_s")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.since_s = loop.time()
        self.is_free: asyncio.Future[None] = loop.create_future()


class QueryLine:
    """The line of a Session actor.

    Args:
        limits: how many may wait, and the weights of users.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.max_waiting_requests
        self._under_way = 0
        self._waiting: FairQueue[_Place] = FairQueue(weights(limits.user_weights))

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def bounded(self, handler: Handler) -> Handler:
        """The handler of a query, whose requests come through the line. It raises OverloadedError when that is full."""

        async def handle(message: Request[Message]) -> Message:
            await self._enter(key_of(message).user)
            try:
                return await handler(message)
            finally:
                self._leave()

        return handle

    async def _enter(self, user: str) -> None:
        if self._under_way < AT_ONCE and not self._waiting:
            self._under_way += 1
            return
        if len(self._waiting) >= self._most:
            waited_s = asyncio.get_running_loop().time() - next(iter(self._waiting)).since_s
            raise OverloadedError(
                "this deployment", f"{len(self._waiting)} requests", "max_waiting_requests", retry_after_s(waited_s)
            )
        place = _Place()
        self._waiting.add(place, user)
        try:
            await place.is_free
        except asyncio.CancelledError:
            if not self._waiting.remove(place) and not place.is_free.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self._under_way -= 1
        while self._waiting and self._under_way < AT_ONCE:
            place = self._waiting.take()
            if not place.is_free.done():
                self._under_way += 1
                place.is_free.set_result(None)


class Lanes:
    """The lanes of a Session actor.

    Args:
        limits: how many queries may wait.
        changes: of sessions between turns; those of one session wait for each other.
    """

    def __init__(self, limits: Limits, changes: KeyedLocks[SessionKey]) -> None:
        self._line = QueryLine(limits)
        self._changes = changes

    def behind(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """The handler of a request behind all that it waits for."""
        match kind.lane:
            case Lane.QUERY:
                return self._line.bounded(handler)
            case Lane.CHANGE:
                return self._one_by_one(handler)
        return handler

    def _one_by_one(self, handler: Handler) -> Handler:
        """The handler of a change, which waits for those before it in its session: its own first one may be among them."""

        async def handle(message: Any) -> Message:
            async with self._changes.locked(message.key):
                return await handler(message)

        return handle
