"""Commits that the event loop makes itself, and those that the store's thread makes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.errors import SessionExistsError
from actors.interfaces.records import CreateSession
from actors.messages.session import SessionKey
from actors.rules.capacity import lone_commits
from actors.rules.capacity.lone_commits import COST, SMALL
from actors.session.store.store_thread import StoreThread
from actors.session.store.transactions import Transactions
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.sqlite_lock import SqliteLock


class Desk:
    """Makes transactions of a real store, and knows where each was made."""

    def __init__(self, path: Path) -> None:
        self.store = SqlSessionStore(f"sqlite:///{path}")
        self.thread = StoreThread(self.store, "store", 60.0)
        self.transactions = Transactions(self.store, self.thread, time.monotonic)
        self._sessions = 0

    async def make(self, count: int = 1, *, writes: int = 1) -> list[str]:
        """Create so many sessions, one after the other. Returns the names of the threads that did."""
        made: list[str] = []

        def create() -> None:
            self.store.commit([CreateSession(SessionKey("app", "ada", f"s{self._sessions}"), 1.0)])
            made.append(threading.current_thread().name)

        for _ in range(count):
            self._sessions += 1
            await self.transactions.make(create, writes)
        return made


LOOP = threading.main_thread().name


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    # The machine that runs this may be busy.
    monkeypatch.setattr(lone_commits, "QUICK_S", 10.0)
    monkeypatch.setattr(lone_commits, "SLOW_S", 10.0)
    desk = Desk(tmp_path / "s.db")
    yield desk
    await desk.thread.close()


async def test_those_of_single_sessions_are_made_on_the_loop_once_they_are_known_to_be_quick(desk: Desk) -> None:
    assert await desk.make(COST + 2) == ["store"] * COST + [LOOP] * 2
    # Others share them, and the loop has something to do while the disk has.
    assert await desk.make(writes=SMALL + 1) == [LOOP]
    assert await desk.make() == ["store"]


async def test_while_the_thread_reads_a_commit_waits_for_it_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    gate = threading.Event()
    reading = asyncio.create_task(desk.thread.call(gate.wait))
    await asyncio.sleep(0)
    making = asyncio.create_task(desk.make())
    await asyncio.sleep(0.01)
    gate.set()
    assert (await making, await reading) == (["store"], True)
    assert await desk.make() == [LOOP]


async def test_a_read_that_comes_in_between_has_the_commit_made_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    making = asyncio.create_task(desk.make())
    await asyncio.sleep(0)
    assert await desk.thread.call(list) == []
    assert await making == ["store"]


async def test_no_commit_on_the_loop_waits_for_a_lock_of_another_process(desk: Desk, tmp_path: Path) -> None:
    await desk.make(COST)
    with SqliteLock(tmp_path / "s.db") as lock:
        making = asyncio.create_task(desk.make())
        began_s = time.monotonic()
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert time.monotonic() - began_s < 5, "the loop has waited"
        assert not making.done()
        lock.release()
        assert await making == ["store"]


async def test_what_goes_wrong_on_the_loop_is_raised_as_it_is_in_the_thread(desk: Desk) -> None:
    def create_again() -> None:
        desk.store.commit([CreateSession(SessionKey("app", "ada", "s1"), 1.0)])

    await desk.make(COST)
    with pytest.raises(SessionExistsError):
        await desk.transactions.make(create_again, 1)
    assert await desk.make() == [LOOP]


async def test_a_new_connection_is_made_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    desk.store._database._drop_connection()
    assert await desk.make(2) == ["store", LOOP]


async def test_a_store_without_this_ability_is_used_in_its_thread_only(desk: Desk) -> None:
    transactions, made = Transactions(NoAbility(), desk.thread, time.monotonic), []  # type: ignore[arg-type]
    for _ in range(2 * COST):
        await transactions.make(lambda: made.append(threading.current_thread().name), 1)
    assert made == ["store"] * 2 * COST


class NoAbility:
    """A store of somebody else."""
