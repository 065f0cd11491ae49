"""A clock that stands still until a test moves it, and the event loop of a Runtime that goes by it."""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import time
from typing import Any

from actors.errors import RequestError
from actors.messages.event import LoopClocks
from actors.session.store.store_thread import Job

PATIENCE_S = 2.0
"""How long a call in a thread is waited for before the time goes on without it: a tool may never return."""

STORE_PATIENCE_S = 30.0
"""The same for a call of a store. A disk that is busy takes seconds, and if the time went on meanwhile the store would count as
away."""

RESOLUTION_S = 1e-6
"""Timers that are due within so many seconds are due now."""

_FOR_EXECUTORS = asyncio.wrap_future.__code__
_FOR_STORES = Job.__init__.__code__
"""What makes futures for calls in threads: of executors, and of the thread of a store."""


class FrozenClock:
    """A time that only `advance` moves, for a Runtime on the local engine: `Runtime(…, engine="local", clock=FrozenClock())`.

    Everything that waits there goes by it: timeouts of turns and stores, pauses before a child or a model is tried again, limits
    of models, schedules, budgets of a day, the timestamps of events, and `asyncio.sleep` of agents, models and tools. What
    threads wait for goes by the machine.

    When a Runtime is closed, its time goes on by itself.
    """

    def __init__(self) -> None:
        self._began_s = time.time()
        self._advanced_s = 0.0
        self._loops: list[_FrozenLoop] = []

    @property
    def advanced_s(self) -> float:
        """The seconds by which it was moved so far."""
        return self._advanced_s

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._began_s + self._advanced_s

    async def sleep(self, seconds: float) -> None:
        """Return when the time was moved by so many seconds."""
        await asyncio.sleep(seconds)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that goes by this clock."""
        loop = _FrozenLoop(self.now_s())
        self._loops.append(loop)
        return loop

    def advance(self, seconds: float) -> None:
        """Move the time, and return when all that had to happen meanwhile has happened, each at its own time.

        Call it from the test, not from an agent or a tool: it waits until these have nothing to do but wait.

        Raises:
            RequestError: `seconds` is less than 0, or it is called on the event loop of a Runtime.
        """
        if seconds < 0:
            raise RequestError(f"time goes forward only, and not by {seconds!r} seconds")
        loops = self._open_loops()
        if any(loop.is_current_thread() for loop in loops):
            raise RequestError("advance waits for the agents, so a test calls it, and no agent or tool")
        until_s = self._advanced_s + seconds
        while True:
            for loop in loops:
                loop.settle()
            waits = [wait_s for loop in loops if (wait_s := loop.next_wait_s()) is not None]
            step_s = min([until_s - self._advanced_s, *waits])
            if step_s <= 0:
                return
            self._advanced_s += step_s
            for loop in loops:
                loop.move(step_s)

    def next_wait_s(self) -> float | None:
        """In how many seconds the next wait is over; None when nothing waits for the time."""
        return min((wait_s for loop in self._open_loops() if (wait_s := loop.next_wait_s()) is not None), default=None)

    def thaw(self) -> None:
        """Let the time of the running event loop go on by itself. The engine calls it when the Runtime is closed."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, _FrozenLoop):
            loop.thaw()

    def _open_loops(self) -> list[_FrozenLoop]:
        self._loops = [loop for loop in self._loops if loop.is_frozen and not loop.is_closed()]
        return self._loops


class _FrozenLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still. `_Selector` keeps it from waiting for its timers.

    Args:
        epoch_s: the time now, in seconds since the epoch.
    """

    def __init__(self, epoch_s: float) -> None:
        self._own_thread = 0
        self._lag_s: float | None = None
        self._frozen_s = time.monotonic()
        self._began_s = epoch_s - self._frozen_s
        # Calls in threads that have not come back, each with the seconds for which it is still waited for.
        self._in_threads: dict[asyncio.Future[Any], float] = {}
        self._state = threading.Condition()
        self._wait_s: float | None = None
        self._asked = self._noted = self._reached = 0
        super().__init__(_Selector(self))
        LoopClocks.are_there = True
        # After half a year floats are further apart than the machine's resolution, and a timer that is due now would never be.
        self._clock_resolution = RESOLUTION_S

    @property
    def is_frozen(self) -> bool:
        """True until `thaw`."""
        return self._lag_s is None

    def time(self) -> float:
        """The time by which timers go."""
        return self._frozen_s if self._lag_s is None else time.monotonic() - self._lag_s

    def epoch_s(self) -> float:
        """The same time in seconds since the epoch: `now_s` of events is this one."""
        return self._began_s + self.time()

    def is_current_thread(self) -> bool:
        """True in the thread that runs it."""
        return threading.get_ident() == self._own_thread

    def run_forever(self) -> None:
        """Run, and remember in which thread."""
        self._own_thread = threading.get_ident()
        super().run_forever()

    def create_future(self) -> asyncio.Future[Any]:
        """A future. One that stands for a call in a thread is kept until the call is back: meanwhile the loop only seems idle."""
        future = super().create_future()
        made_by = sys._getframe(1).f_code
        if made_by in (_FOR_EXECUTORS, _FOR_STORES):
            self._in_threads[future] = PATIENCE_S if made_by is _FOR_EXECUTORS else STORE_PATIENCE_S
            future.add_done_callback(lambda done: self._in_threads.pop(done, None))
        return future

    def settle(self) -> None:
        """Wait until it does nothing but wait for its timers, for messages from outside, and for calls that do not come back."""
        with self._state:
            self._asked += 1
            wanted = self._asked
        self.call_soon_threadsafe(self._note, wanted)
        with self._state:
            while not self._state.wait_for(lambda: self._reached >= wanted or not self.is_frozen, PATIENCE_S):
                self.call_soon_threadsafe(self._lose_patience, PATIENCE_S)

    def _note(self, wanted: int) -> None:
        self._noted = wanted

    def _lose_patience(self, waited_s: float) -> None:
        """The calls that are in threads now were waited for so long."""
        self._in_threads = {call: left_s - waited_s for call, left_s in self._in_threads.items()}

    def blocks(self, wait_s: float | None) -> None:
        """Nothing is ready. Called by its selector, in its thread."""
        if not self._in_threads or max(self._in_threads.values()) <= 0:
            with self._state:
                self._wait_s = wait_s
                self._reached = self._noted
                self._state.notify_all()

    def next_wait_s(self) -> float | None:
        """In how many seconds its next timer is due, as of the last time it had nothing to do."""
        return self._wait_s

    def move(self, seconds: float) -> None:
        """Move its time, and have it run what is due."""
        self.call_soon_threadsafe(self._move, seconds)

    def _move(self, seconds: float) -> None:
        self._frozen_s += seconds

    def thaw(self) -> None:
        """Let its time go on by itself. Called in its thread."""
        if self._lag_s is None:
            self._lag_s = time.monotonic() - self._frozen_s
            with self._state:
                self._state.notify_all()


class _Selector(selectors.DefaultSelector):
    """Waits for messages only, as long as the time stands still."""

    def __init__(self, loop: _FrozenLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for a message from outside; while the time goes on also for the next timer."""
        if self._loop.is_frozen and (timeout is None or timeout > 0):
            self._loop.blocks(timeout)
            timeout = None
        return super().select(timeout)
