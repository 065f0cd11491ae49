"""Requests that come at once are read a few at a time, in their order, and the event loop has time for others in between."""

from __future__ import annotations

import asyncio

from runtime.frontends.web.unread_line import READ_AT_ONCE, UnreadLine


async def test_each_pass_of_the_loop_reads_a_few_in_the_order_in_which_they_came() -> None:
    line, read = UnreadLine(), list[int]()
    count = 3 * READ_AT_ONCE + 1
    for number in range(count):
        if line.may_pass():
            read.append(number)
        else:
            line.add(lambda number=number: read.append(number))  # type: ignore[misc]
    by_pass = [len(read)]
    while len(read) < count:
        assert len(line) == count - len(read) + READ_AT_ONCE
        await asyncio.sleep(0)
        by_pass.append(len(read))
    assert by_pass == [READ_AT_ONCE, 2 * READ_AT_ONCE, 3 * READ_AT_ONCE, count]
    assert read == list(range(count))
    await asyncio.sleep(0)
    assert len(line) == 0


async def test_what_comes_while_others_wait_is_behind_them() -> None:
    line, read = UnreadLine(), list[str]()
    assert all(line.may_pass() for _ in range(READ_AT_ONCE))
    line.add(lambda: read.append("waits"))
    assert not line.may_pass()
    await asyncio.sleep(0)
    assert read == ["waits"]
    # Of this pass, one is read.
    assert [line.may_pass() for _ in range(READ_AT_ONCE)] == [True] * (READ_AT_ONCE - 1) + [False]


async def test_one_at_a_time_never_waits() -> None:
    line = UnreadLine()
    for _ in range(2 * READ_AT_ONCE):
        assert line.may_pass()
        await asyncio.sleep(0)
