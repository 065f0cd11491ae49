"""Many more timetables than the ordinary test run plays: see `tests/simulation/schedules`."""

from __future__ import annotations

import pytest

from tests.simulation.schedules.check import check
from tests.simulation.seeds import failing

SEEDS = 5_000
PART = 500


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_each_due_time_makes_one_turn(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
