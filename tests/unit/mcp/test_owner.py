"""The task that owns a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from runtime.integrations.mcp.link import ConnectionGoneError, Owner


class Fake:
    """A connection that notes by which tasks it is opened and closed."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[object] | None] = []
        self.closed = asyncio.Event()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[str]:
        self.tasks.append(asyncio.current_task())
        yield "open"
        self.tasks.append(asyncio.current_task())
        self.closed.set()

    async def beside(self, connection: str) -> None:
        await asyncio.Event().wait()

    def owner(self, idle_s: float | None = None) -> Owner[str]:
        return Owner(self.connected, self.beside, as_error, idle_s)


def as_error(error: BaseException) -> Exception:
    return ConnectionGoneError(type(error).__name__)


async def cancels_itself(connection: str) -> None:
    raise asyncio.CancelledError


async def test_one_task_opens_and_closes_whatever_tasks_ask() -> None:
    fake = Fake()
    owner = fake.owner()
    await owner.open()

    async def work(connection: str) -> str:
        return connection

    assert await asyncio.create_task(owner.do(work)) == "open"
    await asyncio.create_task(owner.close())
    assert not owner.is_open
    opened, closed = fake.tasks
    assert opened is closed is not asyncio.current_task()
    with pytest.raises(ConnectionGoneError):
        await owner.do(work)


async def test_a_cancellation_inside_is_an_error_for_the_caller() -> None:
    owner = Fake().owner()
    await owner.open()
    with pytest.raises(ConnectionGoneError, match="CancelledError"):
        await owner.do(cancels_itself)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await owner.close()


async def test_a_caller_that_is_cancelled_ends_its_work_and_no_other() -> None:
    owner = Fake().owner()
    await owner.open()
    begun, ended, other = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def waits(connection: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def waits_for_other(connection: str) -> str:
        await other.wait()
        return "done"

    going_on = asyncio.create_task(owner.do(waits_for_other))
    caller = asyncio.create_task(owner.do(waits))
    await begun.wait()
    caller.cancel()
    await ended.wait()
    with pytest.raises(asyncio.CancelledError):
        await caller
    owner.retire()
    assert not owner.is_open
    other.set()
    assert await going_on == "done"
    await owner.close()


async def test_one_that_is_closed_fails_what_is_under_way() -> None:
    owner = Fake().owner()
    await owner.open()
    begun = asyncio.Event()

    async def waits(connection: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    caller = asyncio.create_task(owner.do(waits))
    await begun.wait()
    await owner.close()
    with pytest.raises(ConnectionGoneError):
        await caller


async def test_one_that_is_idle_closes() -> None:
    fake = Fake()
    owner = fake.owner(idle_s=0.001)
    await owner.open()
    await fake.closed.wait()
    assert len(fake.tasks) == 2


async def test_one_that_cannot_be_opened_says_why() -> None:
    @asynccontextmanager
    async def refuses() -> AsyncIterator[str]:
        raise ExceptionGroup("several", [OSError("no server")])
        yield ""  # type: ignore[unreachable]

    owner = Owner(refuses, Fake().beside, as_error)
    with pytest.raises(ConnectionGoneError, match="OSError: no server"):
        await owner.open()
