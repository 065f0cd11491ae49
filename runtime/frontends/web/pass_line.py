"""What may be done by one pass of an event loop, and what waits for a later one.

The answer of a turn that has begun or ended takes a server many times as long as to refuse one. When many begin or end at once, a
pass would do a step of all of them, and requests that are refused would wait for it. So a pass goes on with a few, and the others
wait in the order in which they have come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

AT_ONCE = 4
"""Turns with which one pass of the event loop goes on: some milliseconds of work."""


class PassLine:
    """A line of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Event] = deque()
        self._passed = 0

    async def come_up(self) -> None:
        """Wait until the running coroutine may go on."""
        if not self._waiting and self._passed < AT_ONCE:
            self._note_passed()
            return
        up = asyncio.Event()
        self._waiting.append(up)
        await up.wait()

    def _note_passed(self) -> None:
        self._passed += 1
        if self._passed == 1:
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < AT_ONCE:
            self._note_passed()
            self._waiting.popleft().set()


class PassLines:
    """A line for each event loop: an application may be served by several servers."""

    def __init__(self) -> None:
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, PassLine] = WeakKeyDictionary()

    async def come_up(self) -> None:
        """Wait in the line of the running loop until the running coroutine may go on."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = PassLine()
        await line.come_up()
