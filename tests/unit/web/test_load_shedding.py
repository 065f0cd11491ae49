"""An event loop for which there is too much refuses as much as it takes to keep up, and no more."""

from __future__ import annotations

import pytest

from runtime.frontends.web.load_shedding import MANY, LoadShedding


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
