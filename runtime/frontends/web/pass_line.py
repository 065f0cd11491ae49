"""What may be done by one pass of an event loop, and what waits for a later one.

To read a request for a turn, find its user and ask for its turn takes a server many times as long as to refuse one, and so does
the answer of a turn that has ended. When many come at once, or many end at once, a pass would do a step of all of them, and
requests that are refused would wait for it. So a pass does a few, and the others wait in the order in which they have come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

AT_ONCE = 4
"""Requests that one pass of the event loop reads, and turns with which it goes on: some milliseconds of work."""


class PassLine:
    """A line of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._passed = 0

    def __len__(self) -> int:
        """The number of those that wait, or have passed in this pass: they do their work in the next one."""
        return len(self._waiting) + self._passed

    def may_pass(self) -> bool:
        """Whether one need not wait; it counts as passed then. Else it has to wait."""
        if self._waiting or self._passed == AT_ONCE:
            return False
        self._note_passed()
        return True

    def add(self, go_on: Callable[[], object]) -> None:
        """One waits, and goes on with this function."""
        self._waiting.append(go_on)

    async def come_up(self) -> None:
        """Wait until the running coroutine may go on."""
        if not self.may_pass():
            up = asyncio.Event()
            self.add(up.set)
            await up.wait()

    def _note_passed(self) -> None:
        self._passed += 1
        if self._passed == 1:
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < AT_ONCE:
            self._note_passed()
            self._waiting.popleft()()


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
