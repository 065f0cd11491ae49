"""Waiting for a task that goes on when what waits for it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from actors.refs.base import shielded


async def _returns(may_end: asyncio.Event, result: str | Exception) -> str:
    await may_end.wait()
    if isinstance(result, Exception):
        raise result
    return result


async def test_the_future_has_the_result_of_the_task() -> None:
    may_end = asyncio.Event()
    waiting = shielded(asyncio.create_task(_returns(may_end, "done")))
    may_end.set()
    assert await waiting == "done"


async def test_the_future_has_the_error_of_the_task() -> None:
    may_end = asyncio.Event()
    waiting = shielded(asyncio.create_task(_returns(may_end, ValueError("wrong"))))
    may_end.set()
    with pytest.raises(ValueError, match="wrong"):
        await waiting


async def test_the_future_is_cancelled_with_the_task() -> None:
    task = asyncio.create_task(_returns(asyncio.Event(), "done"))
    waiting = shielded(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("result", ["done", ValueError("wrong")])
async def test_the_task_goes_on_when_what_waits_is_cancelled(result: str | Exception) -> None:
    may_end, reported = asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    task = asyncio.create_task(_returns(may_end, result))

    async def wait() -> str:
        return await shielded(task)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not task.done()
    may_end.set()
    await asyncio.wait([task])
    assert task.exception() is result if isinstance(result, Exception) else task.result() == result
    assert not reported
