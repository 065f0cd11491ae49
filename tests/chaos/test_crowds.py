"""Many more crowds than the ordinary test run serves: see `tests/simulation/crowds`."""

from __future__ import annotations

import pytest

from tests.simulation.crowds.check import check
from tests.simulation.seeds import failing

SEEDS = 5_000
PART = 500


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_was_accepted_is_answered_and_the_rest_is_refused_within_the_bounds_and_in_turn(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
