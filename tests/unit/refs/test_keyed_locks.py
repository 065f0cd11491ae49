"""One at a time has the lock of a key, in the order in which it was asked for, whoever gives up meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from actors.actor import KeyedLocks


class Users:
    """Coroutines that take locks, and hold them until they may end."""

    def __init__(self) -> None:
        self.locks: KeyedLocks[str] = KeyedLocks()
        self.had: list[str] = []
        self.may_end: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, *names: str) -> None:
        """Have each take the lock of the key with which its name begins, and let all go as far as they can."""
        for name in names:
            self.may_end[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._use(name))
        await self.settle()

    async def end(self, *names: str) -> None:
        """Have each give its lock on."""
        for name in names:
            self.may_end[name].set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    async def all(self, names: Iterable[str]) -> None:
        for name in names:
            await self.end(name)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _use(self, name: str) -> None:
        async with self.locks.locked(name[0]):
            self.had.append(name)
            await self.may_end[name].wait()


async def test_locks_are_given_in_order_and_each_key_has_its_own() -> None:
    users = Users()
    await users.begin("a1", "a2", "b1", "a3")
    assert users.had == ["a1", "b1"]
    await users.end("a1")
    await users.begin("a4")
    await users.all(["a2", "a3", "a4", "b1"])
    assert users.had == ["a1", "b1", "a2", "a3", "a4"]
    assert not users.locks._held


async def test_a_lock_that_is_free_is_given_without_a_pause() -> None:
    with pytest.raises(StopIteration):
        KeyedLocks[str]().locked("a").__aenter__().send(None)


@pytest.mark.parametrize(
    ("gives_up", "had"),
    [(["a2"], ["a1", "a3"]), (["a1"], ["a1", "a2", "a3"]), (["a2", "a1", "a3"], ["a1"])],
    ids=["one that waits", "the one that holds it", "all"],
)
async def test_those_that_give_up_are_passed_over(gives_up: list[str], had: list[str]) -> None:
    users = Users()
    await users.begin("a1", "a2", "a3")
    for name in gives_up:
        users.tasks[name].cancel()
    await users.settle()
    await users.all(["a1", "a2", "a3"])
    assert users.had == had
    assert not users.locks._held


async def test_one_that_gives_up_just_when_it_gets_the_lock_gives_it_on() -> None:
    users = Users()
    await users.begin("a1", "a2", "a3")
    users.may_end["a1"].set()
    await asyncio.sleep(0)
    # The first has ended, and the second has not run since.
    users.tasks["a2"].cancel()
    await users.settle()
    assert users.had == ["a1", "a3"]
    await users.all(["a3"])
    assert not users.locks._held
