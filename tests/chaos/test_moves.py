"""Ten thousand moves of users, by two programs and more at once: see `tests/simulation/moves`."""

from __future__ import annotations

import pytest

from tests.simulation.moves.plan import plan
from tests.simulation.moves.play import play

MOVES = 10_000
PARTS = 10
"""Each has seeds of its own."""


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_everybody_is_whole_in_one_store_after_ten_thousand_moves(part: int) -> None:
    failed: dict[int, str] = {}
    moved, seed = 0, 1_000 + part * 1_000
    while moved < MOVES // PARTS:
        left = play(plan(seed), seed)
        moved += left.moved
        failed |= {seed: left.problems[0]} if left.problems else {}
        seed += 1
    assert failed == {}
