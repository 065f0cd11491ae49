"""An event loop whose time is virtual, and processes on it that can be frozen and killed at any step.

Nothing waits: when no callback is ready, the time jumps to the next timer. Everything that runs on the loop runs in the order in
which it was scheduled, also what asyncio keeps in sets, so the same program does the same steps in every Python process.
"""

# mypy: disable-error-code="override, attr-defined, misc"

from __future__ import annotations

import asyncio
import heapq
from asyncio import base_events, events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from tests.model.history import History

T = TypeVar("T")

PROCESS: ContextVar[SimProcess | None] = ContextVar("PROCESS", default=None)
"""The simulated process in which the running code lives; None: the network, the store, and the simulation itself."""

NO_PROCESS = Context()
"""A context outside of all processes."""

MAX_STEPS = 20_000
"""Steps of the loop at one time: a thousand times as many as a simulation makes."""

START_S = 1_000.0
"""The loop's time at the beginning of a simulation."""


class EndlessError(KeyboardInterrupt):
    """Raised in a scenario that goes round in circles. Loops let interrupts out, and give all else to the task that runs."""


class StuckError(Exception):
    """Nothing would ever happen again: nothing is ready and no timer runs, or no time passes."""


class SimProcess:
    """A process: all that is scheduled from within its context.

    While it is held nothing of it runs, as after SIGSTOP; one that is dead is held for good, as after SIGKILL.

    Attributes:
        name: for traces.
        is_held: nothing of it runs now.
        is_dead: nothing of it will ever run.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_held = False
        self.is_dead = False
        self.held: list[events.Handle] = []
        self._context = Context()
        self._context.run(PROCESS.set, self)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.processes.append(self)

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the process."""
        return self._context.copy().run(function, *args)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task in the process."""
        return self.run(asyncio.get_running_loop().create_task, work)

    def note_lost(self) -> None:
        """Called when it is lost."""

    def go_on(self) -> None:
        """Let a held process run, unless it is dead."""
        if not self.is_dead:
            self.is_held = False
            self.release()

    def release(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        handles, self.held = self.held, []
        loop.schedule(handles)


class _HeldWithProcess(events.Handle):
    """A callback that a held process keeps until it goes on."""

    __slots__ = ()

    def _run(self) -> None:
        process = self._context.get(PROCESS)
        if process is not None and process.is_held:
            process.held.append(self)
        else:
            super()._run()


class _Handle(_HeldWithProcess):
    __slots__ = ()


class _TimerHandle(_HeldWithProcess, events.TimerHandle):
    __slots__ = ()


class _Future(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address."""

    def __init__(self, number: int, loop: VirtualLoop) -> None:
        super().__init__(loop=loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, work: Any, loop: VirtualLoop, context: Context | None) -> None:
        self._number = number
        super().__init__(work, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number


class _NoSelector:
    """Stands in for the selector: nothing ever comes from outside."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._steps = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise StuckError("nothing is ready and no timer runs")
        self._steps = self._steps + 1 if not timeout else 0
        if self._steps > MAX_STEPS:
            self._steps = 0
            raise StuckError("something runs on and on, and no time passes")
        self._loop.skip(timeout)
        return []


class VirtualLoop(base_events.BaseEventLoop):
    """The event loop. Blocking calls that go to its executor are run on it, one step later.

    Attributes:
        days_passed_s: by so much the wall clock is ahead of the loop's time, beside the beginning.
        history: what happens on it, for the judge.
    """

    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._now_s = START_S
        self.history = History(self.time)
        self._numbers = 0
        self._selector = _NoSelector(self)
        self.tasks: list[_Task] = []
        self.days_passed_s = 0.0
        self.processes: list[SimProcess] = []
        self.is_ending = False
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note_exception)
        self.unhandled: list[dict[str, Any]] = []

    def time(self) -> float:
        return self._now_s

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds

    def schedule(self, handles: list[events.Handle]) -> None:
        """Run these callbacks next, in this order."""
        self._ready.extend(handles)

    def create_future(self) -> asyncio.Future[Any]:
        """A future that hashes to its number."""
        self._numbers += 1
        return _Future(self._numbers, self)

    def _new_task(self, loop: Any, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        self._numbers += 1
        task = _Task(self._numbers, work, self, context)
        # A task of a dead process must not be collected while the simulation runs: that would run its `finally` blocks.
        self.tasks.append(task)
        return task

    def _note_exception(self, loop: Any, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> events.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> events.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Call a blocking function on the loop, one step later."""
        done: asyncio.Future[T] = self.create_future()
        self.call_soon(_call, done, func, args)
        return done

    def _write_to_self(self) -> None:
        """Nothing: no other thread has to wake this loop."""

    def _process_events(self, event_list: Any) -> None:
        """Nothing: there are no files and sockets."""

    def forget(self) -> None:
        """End what is left when the simulation is over, without a word, and close the loop."""
        self.is_ending = True
        self.set_exception_handler(lambda loop, context: None)
        for task in self.tasks:
            task._log_destroy_pending = False
        is_over = False
        while not is_over:
            # Each task that waits for one that was interrupted passes it on, and an interrupted `_cancel_all` cancels the next.
            with suppress(EndlessError, asyncio.CancelledError):
                self.run_until_complete(self._cancel_all())
                is_over = True
        self.close()
        # Every loop that ends looks at all tasks that there are.
        self.tasks.clear()

    async def _cancel_all(self) -> None:
        this = asyncio.current_task()
        for process in self.processes:
            process.is_held = False
            process.release()
        for _ in range(20):
            left = [task for task in self.tasks if not task.done() and task is not this]
            if not left:
                break
            for task in left:
                task.cancel()
            for _ in range(20):
                await asyncio.sleep(0)


def _call(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)


def outside(function: Callable[..., T], *args: Any) -> T:
    """Call a function outside of all processes."""
    return NO_PROCESS.copy().run(function, *args)


def here() -> Context:
    """A copy of the running context."""
    return copy_context()
