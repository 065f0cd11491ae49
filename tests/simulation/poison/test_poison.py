"""One user's failure is no other's, and it ends: turns that end their process, alone or with Runner and Session actor.

`tests.simulation.poison.check.check(seed)` says what does not hold for a seed. `tests/chaos` plays many more.
"""

from __future__ import annotations

import pytest

from tests.simulation.poison.check import check
from tests.simulation.poison.crowd import crowd
from tests.simulation.poison.play import play
from tests.simulation.seeds import failing

SEEDS = 120
PART = 10


@pytest.mark.sampled(6)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_turn_of_others_fails_and_each_poisoned_one_does(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


def test_crowds_have_users_who_wait_and_users_who_end_processes() -> None:
    crowds = [crowd(seed) for seed in range(12)]
    assert {asked.does for each in crowds for asked in each.turns} == {
        "think",
        "work",
        "crash",
        "crash in callback",
        "crash in expert",
    }
    assert any("runner" in asked.takes for each in crowds for asked in each.turns)
    assert sum(play(each, seed).runs.total() for seed, each in enumerate(crowds)) > 100
