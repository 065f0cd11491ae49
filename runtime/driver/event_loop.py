"""The driver's event loop, in a thread of its own: sync and async programs share it.

`Portal` is what anyio calls a `BlockingPortal`, and is not replaced by that one for three reasons. Closing anyio's portal waits
for the threads of the loop's default executor, where sync tools of the local engine run: one that hangs would hang
`Runtime.close`. anyio's portal refuses calls from its own thread, where async tools may start and cancel turns. And each call
waits for the loop twice, which makes reading a session from a sync program take 0.08 ms instead of 0.04 ms.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

if sys.platform == "win32":
    from asyncio import new_event_loop
else:
    from uvloop import new_event_loop

from actors.errors import ForkedProcessError

T = TypeVar("T")

Work = Coroutine[Any, Any, T]
"""A coroutine with a result of type T."""

CANCEL_S = 2.0
"""How long a closing portal waits for what it has cancelled: a user's code may ignore that."""


class HomeProcess:
    """The process in which something was made that a fork does not have: a thread, or what only a thread fills.

    Args:
        app_name: for the error message.
    """

    def __init__(self, app_name: str) -> None:
        self._app_name = app_name
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """True in that process, False in its forks."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raise ForkedProcessError in any other process, where waiting would never end."""
        if not self.is_here():
            raise ForkedProcessError(self._app_name, self._pid)


class Portal:
    """Runs coroutines for other threads.

    Args:
        name: of the thread.
        loop: its event loop; None: a new one.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def is_current_thread(self) -> bool:
        """True on the portal's own thread, which must not wait for its loop."""
        return threading.current_thread() is self._thread

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call a function, without waiting for it."""
        self._loop.call_soon_threadsafe(callback)

    def submit(self, work: Work[T]) -> Future[T]:
        """Start a coroutine. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Work[T]) -> T:
        """Run a coroutine and wait for its result. Raises what it raises."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_async(self, work: Work[T]) -> T:
        """Run a coroutine for a caller on another event loop. Raises what it raises."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Cancel what still runs on the loop and end the thread. What does not hear of it is left behind with the loop."""
        if self._thread.is_alive():
            self.submit(_cancel_all()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_S)
