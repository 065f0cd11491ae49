"""The threads of a process in which sync tools and other blocking calls run, and those of them that do not come back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, ParamSpec, TypeVar

LINGER_S = 30.0
"""A thread without a call ends after this long."""

LOOK_S = 0.005
"""Time between two looks whether all calls have ended."""

T = TypeVar("T")
P = ParamSpec("P")


class _Call(Future[Any]):
    """A call that was submitted, and what runs it.

    Args:
        leave: called when its caller stops waiting while it runs.
    """

    def __init__(self, work: Callable[[], object], leave: Callable[[_Call], None]) -> None:
        super().__init__()
        self._work: Callable[[], object] | None = work
        self._leave = leave

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; otherwise leave it behind."""
        is_cancelled = super().cancel()
        if not is_cancelled:
            self._leave(self)
        return is_cancelled

    def run(self) -> None:
        """Make the call, unless it was cancelled."""
        work, self._work = self._work, None
        if work is None or not self.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:
            # The border of the thread: the caller gets whatever user code raises.
            self.set_exception(error)
        else:
            self.set_result(result)


class ToolThreads(ThreadPoolExecutor):
    """An executor for an event loop, of which calls that never return take no thread away.

    A thread whose caller no longer waits is left behind: it does not count any more, so another one may be started in its place.
    When its call returns after all, it is one of the others again, or ends. The threads are daemons, so a call that never returns
    does not keep the program from ending either.

    It is a ThreadPoolExecutor only because event loops accept no other; nothing of that class is used.

    Args:
        limit: calls whose callers wait that may run at the same time.
        on_left: called, in any thread, whenever a thread was left behind.
    """

    def __init__(self, limit: int, on_left: Callable[[], None] = lambda: None) -> None:
        super().__init__(limit, thread_name_prefix="tools")
        self.limit = limit
        self._on_left = on_left
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._left_s: dict[_Call, float] = {}
        self._numbers = count(1)
        self._alive = 0
        self._idle = 0
        self._linger_s = LINGER_S
        self._is_shut = False

    @property
    def left(self) -> int:
        """The number of threads that are left behind."""
        return len(self._left_s)

    def stuck(self, after_s: float) -> int:
        """The number of threads that have been left behind for that long, in seconds."""
        until_s = time.monotonic() - after_s
        with self._changed:
            return sum(left_s <= until_s for left_s in self._left_s.values())

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread make a call. Raises RuntimeError after `shutdown`."""
        call = _Call(partial(fn, *args, **kwargs), self._leave)
        with self._changed:
            if self._is_shut:
                raise RuntimeError("the threads of this process are shut down")
            self._waiting.append(call)
            self._start_missing()
            self._changed.notify()
        return call

    def wait(self, timeout_s: float) -> None:
        """Block until all calls have ended, those that are left behind included, or the time is over."""
        end_s = time.monotonic() + timeout_s
        # Threads say nothing when they have ended a call: nothing waits for that but the end of a program.
        while (self._waiting or self._idle < self._alive) and time.monotonic() < end_s:
            time.sleep(LOOK_S)

    def end_idle(self) -> None:
        """From now on threads end as soon as no call waits."""
        with self._changed:
            self._linger_s = 0.0
            self._changed.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. Waits for none, as some may never return."""
        with self._changed:
            self._is_shut = True
            cancelled = list(self._waiting) if cancel_futures else []
        self.end_idle()
        for call in cancelled:
            call.cancel()

    def _start_missing(self) -> None:
        """Start threads for the calls that wait, as far as there may be more."""
        while self._idle < len(self._waiting) and self._in_use() < self.limit:
            # A thread that cannot be started must not count, and one that is started waits for the lock.
            threading.Thread(target=self._serve, name=f"tools-{next(self._numbers)}", daemon=True).start()
            self._alive += 1
            self._idle += 1

    def _in_use(self) -> int:
        return self._alive - len(self._left_s)

    def _leave(self, call: _Call) -> None:
        with self._changed:
            if call.done() or call in self._left_s:
                return
            self._left_s[call] = time.monotonic()
            self._start_missing()
        self._on_left()

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            with self._changed:
                self._left_s.pop(call, None)
                self._idle += 1
            # Else the thread would hold the last call's result until the next one comes.
            del call

    def _is_awaited(self) -> bool:
        return bool(self._waiting) or self._linger_s == 0.0 or self._in_use() > self.limit

    def _next(self) -> _Call | None:
        """The next call; None when the thread is one too many."""
        with self._changed:
            self._changed.wait_for(self._is_awaited, self._linger_s)
            self._idle -= 1
            if self._in_use() > self.limit or not self._waiting:
                self._alive -= 1
                return None
            return self._waiting.popleft()


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
