"""Requests that come at once are read a few at a time, in their order, and the event loop has time for others in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from runtime.frontends.web.shedding import AT_ONCE, PassLine, PassLines


async def test_each_pass_of_the_loop_reads_a_few_in_the_order_in_which_they_came() -> None:
    line, read = PassLine(), list[int]()
    count = 3 * AT_ONCE + 1
    for number in range(count):
        if line.may_pass():
            read.append(number)
        else:
            line.add(lambda number=number: read.append(number))  # type: ignore[misc]
    by_pass = [len(read)]
    while len(read) < count:
        assert len(line) == count - len(read) + AT_ONCE
        await asyncio.sleep(0)
        by_pass.append(len(read))
    assert by_pass == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, count]
    assert read == list(range(count))
    await asyncio.sleep(0)
    assert len(line) == 0


async def test_what_comes_while_others_wait_is_behind_them() -> None:
    line, read = PassLine(), list[str]()
    assert all(line.may_pass() for _ in range(AT_ONCE))
    line.add(lambda: read.append("waits"))
    assert not line.may_pass()
    await asyncio.sleep(0)
    assert read == ["waits"]
    # Of this pass, one is read.
    assert [line.may_pass() for _ in range(AT_ONCE)] == [True] * (AT_ONCE - 1) + [False]


async def test_one_at_a_time_never_waits() -> None:
    line = PassLine()
    for _ in range(2 * AT_ONCE):
        assert line.may_pass()
        await asyncio.sleep(0)


async def test_coroutines_that_wake_at_once_go_on_a_few_at_a_time() -> None:
    lines, gone_on = PassLines(), list[int]()

    async def go_on(number: int) -> None:
        await lines.come_up()
        gone_on.append(number)

    count = 3 * AT_ONCE
    tasks = [asyncio.create_task(go_on(number)) for number in range(count)]
    # One that is given up keeps no other one waiting.
    await asyncio.sleep(0)
    tasks[-1].cancel()
    before = len(gone_on)
    while len(gone_on) < count - 1:
        await asyncio.sleep(0)
        assert len(gone_on) <= before + AT_ONCE
        before = len(gone_on)
    assert gone_on == list(range(count - 1))
    await asyncio.wait(tasks)


def test_each_event_loop_has_a_line_of_its_own() -> None:
    lines = PassLines()

    async def leave_one_waiting() -> None:
        for _ in range(AT_ONCE):
            await lines.come_up()
        asyncio.get_running_loop().stop()
        await lines.come_up()

    loop = asyncio.new_event_loop()
    waiting = loop.create_task(leave_one_waiting())
    loop.run_forever()
    asyncio.run(asyncio.wait_for(lines.come_up(), 10))
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()
