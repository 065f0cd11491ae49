"""The threads of an agents' process, which has itself replaced when too many of them do not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.engine.process.tool_threads import ToolThreads

STUCK_S = 10.0
"""A thread that has not come back this long after it was left behind is taken for one that never will."""


class WatchedThreads:
    """The default executor of a process's event loop, and what looks after the threads that are left behind.

    Args:
        limit: calls that may run at the same time.
        on_worn_out: called once, on the event loop, when the process is to be replaced.
        stuck_s: after this long a thread that is left behind counts as stuck.
    """

    def __init__(self, limit: int, on_worn_out: Callable[[], None], stuck_s: float = STUCK_S) -> None:
        self._threads = ToolThreads(limit, self._left_behind)
        self._on_worn_out = on_worn_out
        self._stuck_s = stuck_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self._is_worn_out = False

    @property
    def left(self) -> int:
        """The number of threads that are left behind now."""
        return self._threads.left

    def use(self) -> None:
        """Make the threads the default executor of the running event loop. A second time it does nothing."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.set_default_executor(self._threads)

    def _left_behind(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Decide whether the process is worn out; as long as threads are left behind, look again."""
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
        left = self._threads.left
        if self._is_worn_out or not left:
            return
        self._is_worn_out = is_worn_out(self._threads.limit, left=left, stuck=self._threads.stuck(self._stuck_s))
        if self._is_worn_out:
            self._on_worn_out()
        else:
            self._look_again = asyncio.get_running_loop().call_later(self._stuck_s, self._look)


def is_worn_out(threads: int, *, left: int, stuck: int) -> bool:
    """True when a process is to be replaced.

    A thread is left behind when the caller of its call no longer waits. Python cannot end a thread, so another one takes its
    place. It may only be slow: it counts as stuck when it has not come back for `STUCK_S`. When twice as many are left behind as
    may be in use, threads go faster than they can be found to be stuck.

    Args:
        threads: how many may be in use at the same time.
        left: how many are left behind now, stuck ones included.
        stuck: how many of these are stuck.
    """
    return 2 * stuck >= threads or left >= 2 * threads
