"""Many more cases with budgets than the full set plays: see `tests/simulation/spending`."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import failing
from tests.simulation.spending.check import check

SEEDS = 2_000
PART = 250


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_budgets_hold_whatever_goes_wrong(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
