"""Schedules make their turns, each due time one, while actors are lost, stopped and cut off, and the store is away.

`tests.simulation.schedules.check.check(seed)` says what does not hold for a seed. `tests/chaos` plays many more.
"""

from __future__ import annotations

import pytest

from tests.simulation.schedules.check import check
from tests.simulation.schedules.play import play
from tests.simulation.schedules.timetable import timetable
from tests.simulation.seeds import failing

SEEDS = 120
PART = 10


@pytest.mark.sampled(16)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_each_due_time_makes_one_turn(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


def test_timetables_have_turns_losses_pauses_and_deletions() -> None:
    left = [play(timetable(seed), seed) for seed in range(12)]
    assert sum(len(messages) for each in left for messages in each.messages.values()) > 100
    assert any(made.pauses for each in left for made in each.made)
    assert any(made.deleted_s for each in left for made in each.made)
