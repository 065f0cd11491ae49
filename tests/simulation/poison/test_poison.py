"""One user's failure is no other's, and it ends: turns that end their process, alone or with Runner and Session actor.

`tests.simulation.poison.check.check(seed)` says what does not hold for a seed. `tests/chaos` plays many more.
"""

from __future__ import annotations

import pytest

from tests.simulation.poison.check import check
from tests.simulation.poison.crowd import crowd
from tests.simulation.poison.mutants import MUTANTS
from tests.simulation.poison.play import play
from tests.simulation.seeds import failing, finding_seed

SEEDS = 120
PART = 10

FIRST = {"losses_count_by_runner": 2}
"""Seeds that have found each defect; by default 0."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_turn_of_others_fails_and_each_poisoned_one_does(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    seed = finding_seed(check, MUTANTS[name], FIRST.get(name, 0), range(SEEDS))
    assert seed is not None
    assert check(seed) == []


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
