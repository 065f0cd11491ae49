"""Tasks of which each turn begins some."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def begin_task(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, name: str = "raygrove") -> asyncio.Task[T]:
    """A task as `loop.create_task` makes it, with a name that is there already.

    Python 3.11 writes a name with a number for each task, whether any code asks for it or not: a tenth of what a task costs.
    """
    if loop.get_task_factory() is not None:
        return loop.create_task(work, name=name)
    return asyncio.Task(work, loop=loop, name=name)
