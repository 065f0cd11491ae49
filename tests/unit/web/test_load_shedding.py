"""An event loop for which there is too much reads a few requests at a time, and refuses as many as it takes to keep up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from runtime.frontends.web.load_shedding import MANY, LoadShedding
from runtime.frontends.web.shedding import AT_ONCE, PassLine, PassLines


def after(*looks: tuple[float, int]) -> LoadShedding:
    shedding = LoadShedding()
    for late_s, requests in looks:
        shedding.look(late_s, requests)
    return shedding


@pytest.mark.parametrize(
    ("looks", "refuses"),
    [
        ([(0.001, 100)] * 50, False),
        ([(2.0, 1_000)], False),
        ([(2.0, 1_000), (0.0, 0), (2.0, 1_000)], False),
        ([(1.0, MANY - 1)] * 20, False),
        ([(0.03, MANY)] * 5, False),
        ([(0.2, MANY)] * 2, True),
        ([(0.03, MANY)] * 10, True),
    ],
    ids=["in time", "a burst", "bursts", "held up by something else", "late for a moment", "two long steps", "late for long"],
)
def test_only_a_loop_that_stays_late_with_many_requests_refuses(looks: list[tuple[float, int]], refuses: bool) -> None:
    assert (after(*looks).share > 0) is refuses


def test_what_is_refused_is_spread_evenly() -> None:
    shedding = after((0.25, MANY), (0.25, MANY))
    assert shedding.share == 0.25
    assert [shedding.refuses_next() for _ in range(8)] == [False, False, False, True] * 2


@pytest.mark.parametrize("per_s", [500, 1_500, 3_000, 8_000])
def test_the_share_finds_what_a_loop_bears_and_falls_when_less_comes(per_s: int) -> None:
    """A loop that takes 1 ms for each request, and 0.02 ms to refuse one: it bears 1,000 a second."""
    shedding = LoadShedding()
    now_s, taken, late = 0.0, 0, []

    def go(until_s: float, per_s: float) -> None:
        nonlocal now_s, taken
        waiting = 0.0
        while now_s < until_s:
            refused = sum(shedding.refuses_next() for _ in range(round(waiting)))
            took_s = (round(waiting) - refused) * 0.001 + refused * 0.000_02
            taken += round(waiting) - refused
            came = round(waiting)
            step_s = max(0.01, took_s)
            late.append(step_s - 0.01)
            shedding.look(step_s - 0.01, came)
            now_s += step_s
            waiting = step_s * per_s

    go(3.0, per_s)
    late.clear()
    taken = 0
    go(10.0, per_s)
    late.sort()
    assert late[len(late) * 9 // 10] < 0.05, late[-1]
    assert taken / 7 > 0.7 * min(per_s, 1_000 - 0.02 * per_s)
    go(12.0, 300)
    assert shedding.share == 0


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
