"""Many more crowds with poisoned turns than the ordinary test run plays: see `tests/simulation/poison`."""

from __future__ import annotations

import pytest

from tests.simulation.poison.check import check
from tests.simulation.seeds import failing

SEEDS = 3_000
PART = 300


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_turn_of_others_fails_and_each_poisoned_one_does(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
