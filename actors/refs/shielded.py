"""Waiting for a task that goes on when what waits for it is cancelled."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def shielded(task: asyncio.Task[T]) -> asyncio.Future[T]:
    """A future with the outcome of a task. When the future is cancelled, the task goes on.

    What `asyncio.shield` does, in a third of its calls: every message of the local engine is waited for so.
    """
    waiting: asyncio.Future[T] = task.get_loop().create_future()
    task.add_done_callback(partial(_hand_on, waiting))
    return waiting


def _hand_on(waiting: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        waiting.cancel()
        return
    # Asked for in any case, so that asyncio does not report the error of a task for which nothing waits any more.
    error = task.exception()
    if waiting.done():
        return
    if error is None:
        waiting.set_result(task.result())
    else:
        waiting.set_exception(error)
