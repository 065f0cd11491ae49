"""Whatever becomes of connections and processes: requests run once, replies come once and whole, and nothing is kept for ever."""

from __future__ import annotations

import pytest

from tests.simulation.transport.world import problems

SEEDS = 300
PART = 100


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_has_to_hold_holds_whatever_goes_wrong(first: int) -> None:
    assert {seed: found for seed in range(first, first + PART) if (found := problems(seed))} == {}
