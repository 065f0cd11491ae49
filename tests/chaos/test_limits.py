"""Many more traffics than the ordinary test run plays: see `tests/simulation/limits`."""

from __future__ import annotations

import pytest

from tests.simulation.limits.check import check
from tests.simulation.seeds import failing

SEEDS = 5_000
PART = 500


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_limits_hold_while_they_are_changed(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
