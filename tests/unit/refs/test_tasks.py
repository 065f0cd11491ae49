"""Tasks of which each turn begins some."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

from actors.refs.base import begin_task


async def answer() -> int:
    return 42


async def test_it_is_a_task_of_the_loop() -> None:
    task = begin_task(answer(), asyncio.get_running_loop())
    assert task in asyncio.all_tasks()
    assert await task == 42


async def test_a_loop_that_makes_tasks_of_its_own_makes_this_one() -> None:
    made: list[asyncio.Task[Any]] = []

    def make(loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        made.append(asyncio.Task(work, loop=loop, context=context))
        return made[-1]

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make)
    try:
        task = begin_task(answer(), loop)
    finally:
        loop.set_task_factory(None)
    assert made == [task]
    assert await task == 42
