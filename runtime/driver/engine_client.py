"""The driver's client of its engine: every request runs on one event loop, in a thread that sync and async programs share.

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

from actors.errors import ForkedProcessError, RaygroveError, RuntimeClosedError
from actors.interfaces.stores import ArtifactStore
from actors.refs import SessionRef
from runtime.engine.interface import Engine
from runtime.engine.process.collector import RARE_COLLECTION, existing_left_out
from runtime.engine.store_urls import open_artifact_store
from runtime.stores.safe_artifacts import SafeArtifactStore

if sys.platform == "win32":
    from asyncio import new_event_loop
else:
    from uvloop import new_event_loop

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


class EngineClient:
    """Starts and ends an engine, and runs coroutines on the engine's event loop in between.

    Its methods may be called from any thread. All that need the loop raise RuntimeClosedError when the engine is not started, or
    is being ended, and ForkedProcessError in a fork of the process that has started it.
    """

    def __init__(self, app_name: str, engine: Engine) -> None:
        self.app_name = app_name
        self.engine = engine
        self._portal: Portal | None = None
        self._home = HomeProcess.here
        self._was_started = False
        self._artifacts: tuple[str | ArtifactStore, SafeArtifactStore] | None = None

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor."""
        return self.engine.session

    @property
    def is_forked(self) -> bool:
        """True in a fork of the process that has started the engine."""
        return self._portal is not None and not self._home.is_here()

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return self._portal is not None and not self.is_forked

    def check_process(self) -> None:
        """Raise ForkedProcessError in a fork of the process that has started the engine."""
        if self._portal is not None:
            self._home.check(self.app_name)

    @property
    def artifacts(self) -> SafeArtifactStore:
        """The store of artifacts. Raises RuntimeClosedError in a fork, and until the deployment that knows it is joined."""
        self.check_process()
        named = self.engine.artifact_store
        if named is None:
            raise self.not_open()
        # Another deployment may have been joined since, with another store.
        if self._artifacts is None or self._artifacts[0] != named:
            self._artifacts = named, open_artifact_store(named)
        return self._artifacts[1]

    def start(self) -> None:
        """Start the engine. Raises RaygroveError when it is started already, and what Engine.start raises."""
        self.check_process()
        if self._portal is not None:
            raise RaygroveError(f"the runtime of app {self.app_name!r} is started already")
        self._home = HomeProcess.here
        self.engine.prepare()
        clock = self.engine.loop_clock
        portal = Portal(self.app_name, clock.new_event_loop() if clock is not None else None)
        try:
            with existing_left_out():
                portal.run(self.engine.start())
        except BaseException:
            portal.close()
            self.engine.release()
            raise
        RARE_COLLECTION.begin()
        self._portal = portal
        self._was_started = True

    def not_open(self) -> RuntimeClosedError:
        """Why it cannot be used while it does not run: it was never started, or it is closed."""
        return RuntimeClosedError(self.app_name, "is closed" if self._was_started else "was not started")

    def end_loop(self, *steps: Callable[[], Work[None]]) -> None:
        """Refuse further requests, run these steps on the loop, one after the other, and end the loop."""
        portal = self._open_portal()
        self._portal = None
        try:
            for step in steps:
                portal.run(step())
        finally:
            portal.close()
            self.engine.release()
            RARE_COLLECTION.end()

    def run(self, work: Work[T]) -> T:
        """Run a coroutine on the loop and wait for its result. Raises what it raises."""
        return self._open_portal(work).run(self._joined(work))

    async def run_async(self, work: Work[T]) -> T:
        """Run a coroutine on the loop, for a caller on another event loop. Raises what it raises."""
        return await self._open_portal(work).run_async(self._joined(work))

    def begin_call(self, work: Work[T], ended: Callable[[LoopCall[T]], object]) -> LoopCall[T]:
        """Start a coroutine on the loop, which calls `ended` with it at its end."""
        return self._open_portal(work).begin_call(self._joined(work), ended)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call a function, without waiting for it."""
        self._open_portal().call_soon(callback)

    def loop_time_s(self) -> float:
        """The time of the loop's clock, also for other threads. Raises RuntimeClosedError."""
        return self._open_portal().time_s()

    def is_current_thread(self) -> bool:
        """True on the loop's own thread, which must not wait for the loop."""
        return self._portal is not None and self._home.is_here() and self._portal.is_current_thread()

    def _joined(self, work: Work[T]) -> Work[T]:
        return self._after_rejoining(work) if self.engine.has_ended else work

    async def _after_rejoining(self, work: Work[T]) -> T:
        try:
            await self.engine.rejoin()
        except BaseException:
            # Python warns of coroutines that are never run.
            work.close()
            raise
        return await work

    def _open_portal(self, work: Work[object] | None = None) -> Portal:
        portal = self._portal
        if portal is not None and self._home.is_here():
            return portal
        if work is not None:
            # Python warns of coroutines that are never run.
            work.close()
        self.check_process()
        raise self.not_open()
