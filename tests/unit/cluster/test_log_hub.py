"""The hub keeps the newest lines for any number of readers."""

from __future__ import annotations

import asyncio

from runtime.cluster import logs as hubs
from runtime.cluster.logs import LogHub


async def test_readers_get_what_came_since_they_asked_last() -> None:
    hub = LogHub()
    hub.put_batch(b"a")
    late = await hub.page("", 0, 0.0)
    assert (late.batches, late.next) == ([], 1)
    first = await hub.page("another hub", 7, 0.0)
    assert (first.batches, first.next, first.lost) == ([b"a"], 1, 0)
    waiting = asyncio.create_task(hub.page(late.hub, late.next, 30.0))
    await asyncio.sleep(0)
    await asyncio.to_thread(hub.put_batch, b"b")
    assert (await waiting).batches == [b"b"]
    assert (await hub.page(first.hub, 2, 0.001)).batches == []


async def test_what_is_too_much_is_dropped_and_counted() -> None:
    hub = LogHub()
    for _ in range(5):
        hub.put_batch(b"x" * (hubs.MAX_BYTES // 2))
    page = await hub.page("first", 0, 0.0)
    assert (len(page.batches), page.lost, page.next) == (2, 3, 5)
