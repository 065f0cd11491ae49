"""Group commit: in order, together, and each session's failures its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.stores import PutState, Write
from actors.messages.session import SessionKey
from actors.session.store.group_commit import GroupCommit
from tests.support.tries import tries

KEYS = [SessionKey("app", "ada", name) for name in ("s1", "s2", "s3")]


def write(key: SessionKey, number: int, *, fails: bool = False) -> PutState:
    return PutState(key, {"number": number, "fails": fails})


class Disk:
    """Takes whole transactions, unless one of their writes fails."""

    def __init__(self) -> None:
        self.transactions: list[list[int]] = []
        self.stored: list[tuple[SessionKey, int]] = []
        self.failures = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, writes: Sequence[Write]) -> None:
        await self.gate.wait()
        puts = [each for each in writes if isinstance(each, PutState)]
        if self.failures or any(put.values["fails"] for put in puts):
            self.failures = max(self.failures - 1, 0)
            raise StoreError("full")
        self.transactions.append([put.values["number"] for put in puts])
        self.stored += [(put.key, put.values["number"]) for put in puts]


async def test_what_waits_goes_into_one_transaction_in_order() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    disk.gate.clear()
    first = commits.submit(KEYS[0], [write(KEYS[0], 0)])
    await asyncio.sleep(0)
    others = [commits.submit(KEYS[number % 2], [write(KEYS[number % 2], number)]) for number in range(1, 6)]
    disk.gate.set()
    await asyncio.gather(first, *others)
    assert disk.transactions == [[0], [1, 2, 3, 4, 5]]
    assert commits.commits == 2


async def test_then_is_called_in_order_before_the_future_is_done() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    told: list[int] = []
    futures = [commits.submit(KEYS[0], [write(KEYS[0], number)], partial(told.append, number)) for number in range(5)]
    await futures[0]
    assert told[0] == 0
    await futures[-1]
    assert told == [0, 1, 2, 3, 4]


async def test_a_request_that_cannot_be_written_takes_only_its_own_session_with_it() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    bad = commits.submit(KEYS[0], [write(KEYS[0], 1, fails=True)])
    behind = commits.submit(KEYS[0], [write(KEYS[0], 2)])
    other = commits.submit(KEYS[1], [write(KEYS[1], 3)])
    await asyncio.wait([bad, behind, other])
    assert isinstance(bad.exception(), StoreError)
    assert isinstance(behind.exception(), StoreError)
    assert other.exception() is None
    assert disk.stored == [(KEYS[1], 3)]


async def test_a_session_writes_again_only_when_it_is_forgiven() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    with pytest.raises(StoreError):
        await commits.submit(KEYS[0], [write(KEYS[0], 1, fails=True)])
    with pytest.raises(StoreError):
        await commits.submit(KEYS[0], [write(KEYS[0], 2)])
    commits.clear_failure(KEYS[0])
    await commits.submit(KEYS[0], [write(KEYS[0], 3)])
    assert disk.stored == [(KEYS[0], 3)]


async def test_a_transaction_that_fails_as_a_whole_is_tried_request_by_request() -> None:
    disk = Disk()
    disk.failures = 1
    commits = GroupCommit(disk.commit)
    await asyncio.gather(*(commits.submit(key, [write(key, 1)]) for key in KEYS))
    assert [key for key, _ in disk.stored] == KEYS


async def test_who_waits_may_be_cancelled_but_the_writing_goes_on() -> None:
    disk = Disk()
    disk.gate.clear()
    commits = GroupCommit(disk.commit)
    asked = commits.submit(KEYS[0], [write(KEYS[0], 1)])
    flushing = asyncio.create_task(commits.flush())
    await asyncio.sleep(0)
    asked.cancel()
    flushing.cancel()
    await asyncio.sleep(0)
    later = commits.submit(KEYS[0], [write(KEYS[0], 2)])
    disk.gate.set()
    await later
    await commits.flush()
    assert disk.stored == [(KEYS[0], 1), (KEYS[0], 2)]


async def test_a_writer_that_is_cancelled_before_its_first_step_leaves_what_waits_to_the_next_one() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    before = asyncio.all_tasks()
    first = commits.submit(KEYS[0], [write(KEYS[0], 1)])
    (writer,) = asyncio.all_tasks() - before
    writer.cancel()
    await asyncio.wait([writer])
    async with asyncio.timeout(10):
        await asyncio.gather(first, commits.submit(KEYS[1], [write(KEYS[1], 2)]))
    assert disk.transactions == [[1, 2]]


async def test_there_may_be_nothing_to_flush() -> None:
    await GroupCommit(Disk().commit).flush()


@settings(max_examples=tries(50))
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 5).map(lambda roll: roll == 0)), max_size=15))
async def test_a_session_never_has_a_hole(requests: list[tuple[SessionKey, bool]]) -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    futures = [commits.submit(key, [write(key, number, fails=fails)]) for number, (key, fails) in enumerate(requests)]
    if futures:
        await asyncio.wait(futures)
    for key in KEYS:
        mine = [(number, fails) for number, (owner, fails) in enumerate(requests) if owner == key]
        until = next((place for place, (_, fails) in enumerate(mine) if fails), len(mine))
        stored = [number for owner, number in disk.stored if owner == key]
        assert stored == [number for number, _ in mine[:until]]
        assert [futures[number].exception() is None for number, _ in mine] == [True] * until + [False] * (len(mine) - until)


async def test_a_store_that_is_away_is_not_asked_again_for_each_request() -> None:
    tries = 0

    async def commit(_: Sequence[Write]) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError("store", "away")

    commits = GroupCommit(commit)
    futures = [commits.submit(key, [write(key, 1)]) for key in KEYS]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailableError] * len(KEYS)
    assert tries == 1


async def test_a_session_that_has_failed_does_not_keep_others_from_sharing_a_transaction() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    with pytest.raises(StoreError):
        await commits.submit(KEYS[0], [write(KEYS[0], 1, fails=True)])
    refused = commits.submit(KEYS[0], [write(KEYS[0], 2)])
    await asyncio.gather(*(commits.submit(key, [write(key, 3)]) for key in KEYS[1:]))
    assert isinstance(refused.exception(), StoreError)
    assert disk.transactions == [[3, 3]]


class SlowDisk(Disk):
    """Lets others work while it does."""

    async def commit(self, writes: Sequence[Write]) -> None:
        await asyncio.sleep(0)
        await super().commit(writes)


async def test_what_is_submitted_later_is_not_waited_for() -> None:
    disk = SlowDisk()
    commits = GroupCommit(disk.commit)
    numbers = iter(range(1, 1_000))

    def go_on() -> None:
        # As under load: before one is on disk the next one waits.
        if (number := next(numbers, None)) is not None:
            commits.submit(KEYS[1], [write(KEYS[1], number)], go_on)

    commits.submit(KEYS[0], [write(KEYS[0], 0)], go_on)
    await commits.flush()
    assert disk.transactions[:1] == [[0]]
    assert commits.commits <= 3
    await commits.drain()
    assert commits.commits == 1_000


async def test_a_flush_waits_for_all_that_was_submitted_before_it() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    disk.gate.clear()
    first = commits.submit(KEYS[0], [write(KEYS[0], 0)])
    await asyncio.sleep(0)
    second = commits.submit(KEYS[1], [write(KEYS[1], 1)])
    flushing = asyncio.create_task(commits.flush())
    await asyncio.sleep(0)
    assert not flushing.done()
    disk.gate.set()
    await flushing
    assert (first.done(), second.done(), disk.transactions) == (True, True, [[0], [1]])


async def test_a_defect_in_a_callback_keeps_no_other_from_hearing_what_became_of_it() -> None:
    commits = GroupCommit(Disk().commit)

    def fail() -> None:
        raise ValueError("a defect")

    failing = commits.submit(KEYS[0], [write(KEYS[0], 0)], fail)
    other = commits.submit(KEYS[1], [write(KEYS[1], 1)])
    with pytest.raises(ValueError, match="a defect"):
        await failing
    await other
