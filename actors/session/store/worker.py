"""A thread that makes blocking calls for an event loop, one after the other.

It stands in for a ThreadPoolExecutor of one thread, whose futures and their locks take a twentieth of a turn's time: every commit
goes through here.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class Job:
    """One call.

    Attributes:
        answer: what it has returned or raised, on the event loop that has asked for it.
        has_ended: the thread is done with it.
    """

    __slots__ = ("_args", "_begun", "_function", "_loop", "answer", "has_ended")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self._function = function
        self._args = args
        # Taken by the first: the thread that makes the call, or the loop that gives it up.
        self._begun = threading.Lock()
        self.answer: asyncio.Future[Any] = self._loop.create_future()
        self.has_ended = False

    def cancel(self) -> bool:
        """Have the call never made. False when that is too late."""
        return self._begun.acquire(blocking=False)

    def make(self) -> None:
        """Make the call, in the thread, unless it was given up."""
        if not self._begun.acquire(blocking=False):
            return
        result, error = None, None
        try:
            result = self._function(*self._args)
        except BaseException as raised:
            error = raised
        self.has_ended = True
        # On a loop that was closed in the meantime nothing waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, result, error)

    def _tell(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        elif isinstance(error, StopIteration):
            # The one error that a future does not take.
            self.answer.set_exception(RuntimeError(f"StopIteration: {error}"))
        else:
            self.answer.set_exception(error)


class Worker:
    """The thread. It begins with its first call, and ends after `end_thread`, or when nothing refers to this object.

    It is a daemon: a call that never returns must not keep its process from ending.

    Args:
        name: the thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._has_begun = False
        weakref.finalize(self, self._jobs.put, None).atexit = False

    def begin_job(self, function: Callable[..., Any], *args: Any) -> Job:
        """Have a function called in the thread, after all before it."""
        job = Job(function, args)
        self._jobs.put(job)
        if not self._has_begun:
            self._has_begun = True
            threading.Thread(target=_serve, args=(self._jobs,), name=self._name, daemon=True).start()
        return job

    def end_thread(self) -> None:
        """End the thread, without waiting for it."""
        self._jobs.put(None)


def _serve(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.make()
        # What it holds may be large, and the next one late.
        del job
