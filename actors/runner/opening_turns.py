"""Turns that are being opened: somebody has asked for them, and the Runner does not run them yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from actors.messages.session import SessionKey

Where = tuple[SessionKey, str]


class OpeningTurns:
    """Who opens which turn; the same may be asked for several times at once.

    The Session actor may have a turn already of which the Runner has not heard that it may run. That turn is not lost, so nobody
    else has to take it up; and who wants it cancelled has to wait for it.
    """

    def __init__(self) -> None:
        self._under_way: dict[Where, set[asyncio.Future[None]]] = {}

    @contextmanager
    def opening(self, where: Where) -> Iterator[None]:
        """A turn is being opened, until the block is left. What happens then, happens before anybody hears of it."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.setdefault(where, set()).add(over)
        try:
            yield
        finally:
            over.set_result(None)
            self._under_way[where].discard(over)
            if not self._under_way[where]:
                del self._under_way[where]

    def __contains__(self, where: Where) -> bool:
        return where in self._under_way

    async def over(self, where: Where, timeout_s: float) -> None:
        """Wait until nobody opens the turn any more, but not for longer than `timeout_s` seconds."""
        if where in self._under_way:
            await asyncio.wait(self._under_way[where], timeout=timeout_s)
