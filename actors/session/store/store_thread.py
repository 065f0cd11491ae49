"""A store in a thread of its own, opened when it is first used, and waited for while it is away."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from actors.errors import RaygroveError, StoreError, StoreUnavailableError
from actors.interfaces.telemetry import tell_event
from actors.rules import backoff as outages

logger = logging.getLogger(__name__)

MIN_PATIENCE_S = 5.0
"""Shortest patience with one request: a busy disk is not away, however short the store's timeout is."""

T = TypeVar("T")


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

    It is a daemon: a call that never returns must not keep its process from ending. It stands in for a ThreadPoolExecutor of one
    thread, whose futures and their locks take a twentieth of a turn's time: every commit goes through here.
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


class Store(Protocol):
    """What every store has that is used in a thread."""

    def open(self) -> None:
        """Connect. May be called again after `close`."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class _Attempt:
    """One attempt to make a call.

    Attributes:
        began_s: when the store was asked. Time in the line before does not count: nothing is known of the store from then.
    """

    __slots__ = ("began_s",)

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s


class StoreThread:
    """Calls a store's blocking methods, one at a time and in order.

    A call that raises StoreUnavailableError is tried again, so the store's methods must bear repetition. For how long,
    `actors.rules.backoff` says.

    Args:
        store: raises StoreUnavailableError for errors that may pass by themselves.
        timeout_s: how long the store may be away.
        pause: how to wait; by default in real time.
        patience_s: how long the store may take for one call, from the end of the call before; by default as long as it may be
            away.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        timeout_s: float,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        patience_s: float | None = None,
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._patience_s = patience_s or max(timeout_s, MIN_PATIENCE_S)
        self._pause = pause
        self._new_thread = partial(Worker, name)
        self._thread = self._new_thread()
        self._in_use = threading.Lock()
        self._is_open = False
        self._watchdog = Watchdog(self._patience_s, self._give_up)
        self._outage: outages.StoreOutage | None = None
        self._overdue: Job | None = None
        self._is_closing = False

    async def open(self) -> None:
        """Open the store if it is not open yet, once all calls before are done. Raises StoreError."""
        await self.call(lambda: None)

    async def call(self, function: Callable[..., T], *args: Any, writing: bool = False, waits: bool = True) -> T:
        """Call a function in the store's thread.

        Args:
            writing: the function changes what is stored.
            waits: False tries once, however short the store has been away.

        Raises:
            StoreUnavailableError: the store is away, and was waited for.
            RaygroveError: the function raised it.
            StoreError: the function raised an error of another kind.
        """
        clock = asyncio.get_running_loop().time
        while True:
            attempt = _Attempt(clock())
            try:
                answer = await self._once(attempt, function, *args)
            except StoreUnavailableError as error:
                if self._outage is None:
                    tell_event("store away", "%s. It is waited for, up to %g s", error, self._timeout_s)
                self._outage = outages.after_failure(
                    self._outage, asked_s=attempt.began_s, now_s=clock(), writing=writing, timeout_s=self._timeout_s
                )
                pause_s = outages.pause_s(self._outage, now_s=clock(), timeout_s=self._timeout_s)
                if pause_s is None or self._is_closing or not waits:
                    raise
                await self._pause(pause_s)
            else:
                if self._outage is not None:
                    self._outage = outages.after_success(self._outage, writing=writing)
                    if self._outage is None:
                        tell_event("store back", "%s is back", self._store)
                return answer

    async def attempt(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the store's thread once, without a say in how long the store has been away. Raises StoreError."""
        return await self._once(_Attempt(asyncio.get_running_loop().time()), function, *args)

    def stop_retrying(self) -> None:
        """Stop retrying: pending calls fail at their next attempt."""
        self._is_closing = True

    async def close(self) -> None:
        """Close the store, without retrying, and end the thread. A later call opens the store again, in a new one."""
        if self._is_open:
            try:
                await self._once(_Attempt(0.0), self._close)
            except StoreError as error:
                logger.error("%s could not be closed: %s", self._store, error)
        self._watchdog.rest()
        # A call that does not return keeps its thread.
        self._thread.end_thread()
        self._thread = self._new_thread()

    def _close(self) -> None:
        self._store.close()
        self._is_open = False

    async def _once(self, attempt: _Attempt, function: Callable[..., T], *args: Any) -> T:
        if self._overdue is not None and not self._overdue.has_ended:
            raise StoreUnavailableError(str(self._store), f"it has not answered for more than {self._patience_s:g} s")
        doing = self._thread.begin_job(self._do, function, *args)
        self._watchdog.watch_job(doing)
        try:
            answer: T = await doing.answer
            return answer
        except asyncio.CancelledError:
            doing.cancel()
            raise
        except RaygroveError:
            raise
        except Exception as error:
            # A store may be user code, and raise anything.
            logger.exception("%s failed", self._store)
            raise StoreError(f"{self._store}: {type(error).__name__}: {error}") from error
        finally:
            attempt.began_s = max(attempt.began_s, self._watchdog.unwatch_job(doing))

    def _give_up(self, jobs: Sequence[Job]) -> None:
        for doing in jobs:
            if not doing.answer.done():
                if not doing.cancel():
                    # The call goes on and blocks the thread until it ends; calls made meanwhile fail at once.
                    self._overdue = doing
                doing.answer.set_exception(StoreUnavailableError(str(self._store), f"no answer within {self._patience_s:g} s"))

    def _do(self, function: Callable[..., T], *args: Any) -> T:
        # What came while the store was being closed is still done in the thread before.
        with self._in_use:
            if not self._is_open:
                self._store.open()
                self._is_open = True
            return function(*args)
