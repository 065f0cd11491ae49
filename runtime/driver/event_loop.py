"""The driver's event loop, in a thread of its own: sync and async programs share it.

`Portal` is what anyio calls a `BlockingPortal`, and is not replaced by that one for three reasons. Closing anyio's portal waits
for the threads of the loop's default executor, where sync tools of the local engine run: one that hangs would hang
`Runtime.close`. anyio's portal refuses calls from its own thread, where async tools may start and cancel turns. And Ctrl-C in a
thread that waits for anyio's portal may leave a lock taken that the loop needs: see `ThreadSignal`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

if sys.platform == "win32":
    from asyncio import new_event_loop
else:
    from uvloop import new_event_loop

from actors.errors import ForkedProcessError, RuntimeClosedError

T = TypeVar("T")
R = TypeVar("R")
G = TypeVar("G")

Work = Coroutine[Any, Any, T]
"""A coroutine with a result of type T."""

TICK_S = 0.2
"""How often a thread that waits looks for Ctrl-C: the interpreter looks for it before a wait and after, and not in between."""

CANCEL_S = 2.0
"""How long a closing portal waits for what it has cancelled: a user's code may ignore that."""

BLOCKED_S = 3.0
"""How long it waits besides for a loop that something blocks, such as a call of Ray that has no limit of its own."""


class HomeProcess:
    """A process: that in which something was made that a fork does not have, such as a thread, or what only a thread fills.

    To ask the kernel for the process's id instead, several times a turn, was a tenth of what a turn costs a program.

    Attributes:
        here: this process. A fork has one of its own.
    """

    __slots__ = ("_pid",)

    here: ClassVar[HomeProcess]

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """True in that process, False in its forks."""
        return self is HomeProcess.here

    def check(self, app_name: str) -> None:
        """Raise ForkedProcessError in any other process, where waiting would never end."""
        if self is not HomeProcess.here:
            raise ForkedProcessError(app_name, self._pid)

    @classmethod
    def begin(cls) -> None:
        """This process is a new one."""
        cls.here = cls()


HomeProcess.begin()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HomeProcess.begin)


class ThreadSignal:
    """Wakes one thread, once.

    Ctrl-C ends the wait and leaves nothing behind, because the lock is the interpreter's own. A `threading.Condition`, and the
    `Future` and `Event` that are made of it, are Python code: an interrupt in their midst leaves a lock taken which the waking
    thread needs, or gives one back that is not taken.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> None:
        """Wait for `ring`, which may have come before."""
        while not self._lock.acquire(timeout=TICK_S):
            pass

    def ring(self) -> None:
        """Have `wait` return. A second time is an error."""
        self._lock.release()


class LoopCall(Generic[T]):
    """A coroutine that a portal's loop runs for another thread.

    Args:
        loop: the portal's.
        ended: called on the loop when it has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[LoopCall[T]], object]) -> None:
        self._loop = loop
        self._ended = ended
        self._task: asyncio.Task[T]

    def start(self, work: Work[T]) -> None:
        """Run the coroutine. Called on the loop, once."""
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            # Asked for, so that asyncio does not report the error of a call that was given up.
            task.exception()
        self._ended(self)

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread."""
        # A loop that is closed has cancelled it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self._task.cancel())

    def result(self) -> T:
        """The result of an ended coroutine. Raises what it has raised, and CancelledError."""
        try:
            return self._task.result()
        except asyncio.CancelledError:
            # asyncio's own would end the tasks of another loop.
            raise CancelledError from None


class Portal:
    """Runs coroutines for other threads.

    Args:
        app_name: of the Runtime whose it is.
        loop: its event loop; None: a new one.
    """

    def __init__(self, app_name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._app_name = app_name
        self._loop = loop or new_event_loop()
        self._has_ended = False
        self._thread = threading.Thread(target=self._serve, name=f"raygrove-{app_name}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # A thread that asks for something looks at this afterwards: what was asked for before is cancelled here.
        self._has_ended = True
        self._loop.run_until_complete(_cancel_all())

    def is_current_thread(self) -> bool:
        """True on the portal's own thread, which must not wait for its loop."""
        return threading.current_thread() is self._thread

    def time_s(self) -> float:
        """The time of its loop's clock."""
        return self._loop.time()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call a function, without waiting for it. Raises RuntimeClosedError."""
        self._hand_over(self._loop.call_soon_threadsafe, callback)

    def _hand_over(self, ask: Callable[[G], R], given: G) -> R:
        """Ask the loop for something, unless it has ended. Raises RuntimeClosedError."""
        try:
            asked = ask(given)
        except RuntimeError:
            # It is closed.
            raise RuntimeClosedError(self._app_name, "is closed") from None
        if self._has_ended:
            raise RuntimeClosedError(self._app_name, "is closed")
        return asked

    def begin_call(self, work: Work[T], ended: Callable[[LoopCall[T]], object]) -> LoopCall[T]:
        """Start a coroutine, and have the loop call `ended` with it at its end. Raises RuntimeClosedError."""
        call = LoopCall(self._loop, ended)
        try:
            self.call_soon(partial(call.start, work))
        except RuntimeClosedError:
            _give_up(work)
            raise
        return call

    def run(self, work: Work[T]) -> T:
        """Run a coroutine and wait for its result. Raises RuntimeClosedError, and what it raises."""
        signal = ThreadSignal()
        call = self.begin_call(work, lambda call: signal.ring())
        try:
            signal.wait()
        except BaseException:
            call.cancel()
            raise
        return call.result()

    async def run_async(self, work: Work[T]) -> T:
        """Run a coroutine for a caller on another event loop. Raises RuntimeClosedError, and what it raises."""
        try:
            future: Future[T] = self._hand_over(lambda work: asyncio.run_coroutine_threadsafe(work, self._loop), work)
        except RuntimeClosedError:
            _give_up(work)
            raise
        try:
            return await asyncio.wrap_future(future)
        finally:
            # An error has this frame, and would be garbage together with what it is the error of.
            del future

    def close(self) -> None:
        """Cancel what still runs on the loop, and end the thread. Coroutines that ignore cancellation are abandoned."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CANCEL_S + BLOCKED_S)
            if not self._thread.is_alive():
                self._loop.close()


def _give_up(work: Work[object]) -> None:
    """Have Python not warn of a coroutine that is never run."""
    # The loop may just be cancelling it.
    with suppress(ValueError):
        work.close()


async def _cancel_all() -> None:
    clock = asyncio.get_running_loop().time
    end_s = clock() + CANCEL_S
    # What is cancelled may begin something else.
    while (tasks := asyncio.all_tasks() - {asyncio.current_task()}) and clock() < end_s:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=end_s - clock())
