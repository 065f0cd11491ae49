"""Commits that the event loop makes itself, and those that the store's thread makes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from actors.errors import SessionExistsError, StoreError, StoreUnavailableError
from actors.interfaces.records import CreateSession, Write
from actors.messages.session import SessionKey
from actors.rules.capacity import lone_commits
from actors.rules.capacity.lone_commits import COST, SMALL
from actors.session.store.access import StoreAccess
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.sqlite_lock import SqliteLock


class NamedThreads(SqlSessionStore):
    """Knows in which threads its commits were made."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.made: list[str] = []
        self.answers_late = False

    def commit(self, writes: Sequence[Write]) -> None:
        """Do all writes."""
        super().commit(writes)
        self.made.append(threading.current_thread().name)
        if self.answers_late:
            self.answers_late = False
            raise StoreUnavailableError(str(self), "the connection broke")


class Desk:
    """Writes to a real store, and knows where each transaction was made."""

    def __init__(self, path: Path) -> None:
        self.store = NamedThreads(path)
        self.access = StoreAccess(self.store, 60.0)
        self._sessions = 0

    async def make(self, count: int = 1, *, writes: int = 1) -> list[str]:
        """Create so many sessions in each of `count` transactions. Returns the names of the threads that made these."""
        before = len(self.store.made)
        for _ in range(count):
            await asyncio.gather(*(self.submit() for _ in range(writes)))
        return self.store.made[before:]

    def submit(self) -> asyncio.Future[None]:
        """Create another session."""
        self._sessions += 1
        key = SessionKey("app", "ada", f"s{self._sessions}")
        return self.access.commits.submit(key, [CreateSession(key, 1.0)])


LOOP = threading.main_thread().name


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    # The machine that runs this may be busy.
    monkeypatch.setattr(lone_commits, "QUICK_S", 10.0)
    monkeypatch.setattr(lone_commits, "SLOW_S", 10.0)
    desk = Desk(tmp_path / "s.db")
    await desk.access.open()
    yield desk
    await desk.access.close()


async def test_those_of_single_sessions_are_made_on_the_loop_once_they_are_known_to_be_quick(desk: Desk) -> None:
    assert await desk.make(COST + 2) == ["store"] * COST + [LOOP] * 2
    # Others share them, and the loop has something to do while the disk has.
    assert await desk.make(writes=SMALL + 1) == [LOOP]
    assert await desk.make() == ["store"]


async def test_while_the_thread_reads_a_commit_waits_for_it_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    gate = threading.Event()
    reading = asyncio.create_task(desk.access.read(gate.wait))
    await asyncio.sleep(0)
    making = asyncio.create_task(desk.make())
    await asyncio.sleep(0.01)
    gate.set()
    assert (await making, await reading) == (["store"], True)
    assert await desk.make() == [LOOP]


async def test_a_read_that_comes_in_between_has_the_commit_made_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    written = desk.submit()
    assert await desk.access.read(list) == []
    await written
    assert desk.store.made[-1] == "store"


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


async def test_what_goes_wrong_on_the_loop_goes_wrong_in_the_thread_as_well_which_says_so(desk: Desk) -> None:
    await desk.make(COST)
    key = SessionKey("app", "ada", "s1")
    other = desk.submit()
    with pytest.raises(SessionExistsError):
        await desk.access.commits.submit(key, [CreateSession(key, 2.0)])
    await other
    assert desk.store.made[COST:] == ["store"]


async def test_what_was_stored_although_the_loop_was_told_otherwise_is_stored_once(desk: Desk) -> None:
    await desk.make(COST)
    desk.store.answers_late = True
    assert await desk.make(2) == [LOOP, "store", LOOP]
    assert len(desk.store.sessions("app", "ada")) == COST + 2


@pytest.mark.parametrize("ask", ["flush", "drain"])
async def test_a_caller_that_waits_for_all_that_was_submitted_waits_for_a_commit_on_the_loop_too(desk: Desk, ask: str) -> None:
    await desk.make(COST)
    written = desk.submit()
    await getattr(desk.access.commits, ask)()
    await written
    assert len(desk.store.made) == COST + 1


async def test_what_was_refused_is_not_written_on_the_loop_either(desk: Desk) -> None:
    await desk.make(COST)
    key = SessionKey("app", "ada", "other")
    refused, other = desk.access.commits.submit(key, [CreateSession(key, 1.0)]), desk.submit()
    desk.access.commits.refuse(key, StoreError("refused"))
    desk.access.commits.clear_failure(key)
    with pytest.raises(StoreError, match="refused"):
        await refused
    await other
    assert desk.store.session(key) is None


async def test_a_new_connection_is_made_in_the_thread(desk: Desk) -> None:
    await desk.make(COST)
    desk.store._database._drop_connection()
    assert await desk.make(2) == ["store", LOOP]


async def test_a_store_without_this_ability_is_used_in_its_thread_only(desk: Desk) -> None:
    desk.access = StoreAccess(NoAbility(desk.store), 60.0)  # type: ignore[arg-type]
    await desk.access.open()
    assert await desk.make(2 * COST) == ["store"] * 2 * COST


class NoAbility:
    """A store of somebody else."""

    def __init__(self, store: SqlSessionStore) -> None:
        self.open, self.close, self.commit = store.open, store.close, store.commit
