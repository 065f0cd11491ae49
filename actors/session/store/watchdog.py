"""Notices that a thread is stuck in a call, however many calls wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from actors.session.store.worker import Job


class Watchdog:
    """Watches the calls of one thread, on their event loop.

    A call's time counts from the end of the call before it: ten thousand calls that are asked for at once take long, yet the
    thread that makes them is not stuck.

    Args:
        patience_s: how long one call may take.
        on_stuck: called with all calls that wait, the one under way first, when that takes longer.
    """

    def __init__(self, patience_s: float, on_stuck: Callable[[Sequence[Job]], None]) -> None:
        self._patience_s = patience_s
        self._on_stuck = on_stuck
        self._jobs: dict[Job, None] = {}
        self._progress_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch_job(self, job: Job) -> None:
        """Watch a call, which the thread makes after those that are watched already."""
        loop = asyncio.get_running_loop()
        if not self._jobs:
            self._progress_s = loop.time()
        self._jobs[job] = None
        if self._timer is None:
            self._timer = loop.call_later(self._patience_s, self._look, loop)

    def unwatch_job(self, job: Job) -> float:
        """Stop watching a call.

        Returns:
            When the thread has begun with it, or later, if this loop was too busy to see that; in seconds of the loop's clock.
        """
        began_s = self._progress_s
        self._jobs.pop(job, None)
        if job.has_ended:
            self._progress_s = asyncio.get_running_loop().time()
        return began_s

    def rest(self) -> None:
        """Let go of the event loop, unless there are calls to watch."""
        if self._timer is not None and not self._jobs:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._jobs:
            return
        now_s = loop.time()
        if next(iter(self._jobs)).has_ended:
            # Its answer has not been taken yet: this loop is late, not the thread.
            self._progress_s = now_s
        left_s = self._progress_s + self._patience_s - now_s
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look, loop)
        else:
            self._on_stuck(list(self._jobs))
