"""The requests for turns that a server has let through and not read yet.

To read one, find its user and ask for its turn takes a server many times as long as to refuse one. When many come at once, each
pass of its event loop would do a step of all of them, and those that are refused would wait for it. So a pass reads a few, and
the others wait in the order in which they have come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

READ_AT_ONCE = 8
"""Requests that one pass of the event loop reads: some milliseconds of work."""


class UnreadLine:
    """The line of one server. It belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._read = 0

    def __len__(self) -> int:
        """The number of requests that wait, or were read in this pass: those ask for their turns in the next one."""
        return len(self._waiting) + self._read

    def may_pass(self) -> bool:
        """Whether a request is read at once; it counts as read then. Else it has to wait."""
        if self._waiting or self._read == READ_AT_ONCE:
            return False
        self._note_read()
        return True

    def add(self, read: Callable[[], object]) -> None:
        """A request waits, and is read by this function."""
        self._waiting.append(read)

    def _note_read(self) -> None:
        self._read += 1
        if self._read == 1:
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._read = 0
        while self._waiting and self._read < READ_AT_ONCE:
            self._note_read()
            self._waiting.popleft()()
