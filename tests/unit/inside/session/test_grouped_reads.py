"""Reads that wait are done together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from actors.errors import StoreError, StoreUnavailableError
from actors.session.store.grouped_reads import AT_ONCE, GroupedReads


class Reads:
    """Reads the squares of numbers; negative ones cannot be read."""

    def __init__(self, error: StoreError | None = None) -> None:
        self.groups: list[list[int]] = []
        self.has_begun = asyncio.Event()
        self._error = error or StoreError("negative")
        self.grouped = GroupedReads(self.read)

    async def read(self, keys: Sequence[int]) -> Mapping[int, int]:
        self.groups.append(list(keys))
        self.has_begun.set()
        await asyncio.sleep(0)
        if any(key < 0 for key in keys):
            raise self._error
        return {key: key * key for key in keys}


async def test_requests_that_come_together_share_a_read_and_each_key_is_read_once() -> None:
    reads = Reads()
    assert await asyncio.gather(*(reads.grouped.of(key) for key in (1, 2, 3, 2))) == [1, 4, 9, 4]
    assert reads.groups == [[1], [2, 3]]
    assert await reads.grouped.of(4) == 16


async def test_a_request_never_gets_what_was_read_before_it_came() -> None:
    reads = Reads()
    first = asyncio.create_task(reads.grouped.of(1))
    await reads.has_begun.wait()
    assert await reads.grouped.of(1) == await first == 1
    assert reads.groups == [[1], [1]]


async def test_a_read_has_no_more_keys_than_may_be() -> None:
    reads = Reads()
    await asyncio.gather(*map(reads.grouped.of, range(AT_ONCE + 2)))
    assert [len(group) for group in reads.groups] == [1, AT_ONCE, 1]


async def test_what_cannot_be_read_takes_no_others_with_it() -> None:
    reads = Reads()
    results = await asyncio.gather(*map(reads.grouped.of, (1, -1, 3)), return_exceptions=True)
    assert [results[0], results[2]] == [1, 9]
    assert isinstance(results[1], StoreError)


async def test_a_store_that_is_away_is_not_asked_for_each_key() -> None:
    reads = Reads(StoreUnavailableError("away"))
    results = await asyncio.gather(*map(reads.grouped.of, (1, -1, 2)), return_exceptions=True)
    assert [type(result) for result in results] == [int, StoreUnavailableError, StoreUnavailableError]
    assert reads.groups == [[1], [-1, 2]]


async def test_a_request_that_is_cancelled_leaves_the_others() -> None:
    reads = Reads()
    first, second = (asyncio.create_task(reads.grouped.of(key)) for key in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 4
    with pytest.raises(asyncio.CancelledError):
        await first
