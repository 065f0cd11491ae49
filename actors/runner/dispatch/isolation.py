"""Lets runs that may have ended a process go on alone, each in a process of its own: see rules.recovery.suspects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from actors.rules.recovery.suspects import BEGINNING_S, Waiting, next_alone

GATHERED_S = 0.25
"""What was lost with a Runner asks to go on within this time after it was recovered; until then none of it begins."""


class Isolation:
    """The runs of a Runner that go on alone, and those that wait for it.

    Args:
        recovered: waits until the turns of a Runner that was lost run here: what was lost with it begins in the right order then.
    """

    def __init__(self, recovered: Callable[[], Awaitable[None]]) -> None:
        self._recovered = recovered
        self._waiting: dict[asyncio.Future[None], Waiting] = {}
        self._beginning: dict[asyncio.Future[None], Waiting] = {}
        self._running = 0

    @asynccontextmanager
    async def alone(self, run: Waiting) -> AsyncIterator[None]:
        """Inside the block the run goes on alone. Entering it may take a while."""
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        if run.with_runner:
            await self._recovered()
            self._waiting[place] = run
            loop.call_later(GATHERED_S, self._let_in)
        else:
            self._waiting[place] = run
            self._let_in()
        try:
            await place
            yield
        finally:
            if self._waiting.pop(place, None) is None:
                self._running -= 1
            self._beginning.pop(place, None)
            self._let_in()

    def _let_in(self) -> None:
        places = list(self._waiting)
        while (index := next_alone(list(self._waiting.values()), list(self._beginning.values()), self._running)) is not None:
            place = places.pop(index)
            self._beginning[place] = self._waiting.pop(place)
            self._running += 1
            if not place.done():
                place.set_result(None)
            asyncio.get_running_loop().call_later(BEGINNING_S, self._has_begun, place)

    def _has_begun(self, place: asyncio.Future[None]) -> None:
        if self._beginning.pop(place, None) is not None:
            self._let_in()
