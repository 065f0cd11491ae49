"""Begins to write what waits: in a step of the event loop, or in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.refs.tasks import begin_task


class NextWrite:
    """What writes next. One thing is under way at a time.

    Args:
        may_be_at_once: whether the next transaction may be made on the event loop, as far as can be said before.
        write_at_once: writes what waits in the step in which it is called. False when that cannot be.
        write_all: writes what waits, and waits for the store.
    """

    def __init__(
        self,
        may_be_at_once: Callable[[], bool],
        write_at_once: Callable[[], bool],
        write_all: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._may_be_at_once = may_be_at_once
        self._write_at_once = write_at_once
        self._write_all = write_all
        self._soon: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._running_loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop."""
        # Asked for once: asyncio asks the kernel for the process each time.
        loop = self._running_loop = self._running_loop or asyncio.get_running_loop()
        return loop

    def begin(self) -> None:
        """Have what waits be written."""
        if self._soon is not None or self._has_task():
            return
        if self._may_be_at_once():
            self._soon = self.loop.call_soon(self._wait_a_pass)
        else:
            self._begin_task()

    def begin_task(self) -> asyncio.Task[None] | None:
        """Have a task write, if something is to be written, or does so already. Returns the last task; None: there was none."""
        if self._soon is not None:
            self._soon.cancel()
            self._begin_task()
        return self._task

    def end_rest(self) -> None:
        """Have a task look what is to be done, although nothing waits."""
        self.begin_task()
        if not self._has_task():
            self._begin_task()

    def _has_task(self) -> bool:
        # It may have ended before its first step: the end of an event loop cancels all tasks.
        return self._task is not None and not self._task.done()

    def _begin_task(self) -> None:
        self._soon = None
        self._task = begin_task(self._write_all(), self.loop)

    def _wait_a_pass(self) -> None:
        # What was put into connections is written in this pass of the event loop, and is to be on its way before.
        self._soon = self.loop.call_soon(self._step)

    def _step(self) -> None:
        self._soon = None
        if not self._write_at_once():
            self._begin_task()
