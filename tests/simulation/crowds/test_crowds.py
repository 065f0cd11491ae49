"""Crowds ask for more than a deployment takes, and some of what they ask for is lost, stopped or cancelled on its way.

`tests.simulation.crowds.check.check(seed)` says what does not hold for a seed. `tests/chaos` plays many more.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.crowds.check import check
from tests.simulation.crowds.crowd import crowd
from tests.simulation.crowds.mutants import MUTANTS
from tests.simulation.crowds.play import serve
from tests.simulation.seeds import failing, finding_seed

SEEDS = 120
PART = 10

FIRST = {
    "users_do_not_take_turns": 13,
    "sessions_do_not_take_turns": 13,
    "turns_that_are_there_are_refused": 61,
    "users_have_no_weights": 5,
    "a_user_is_served_once_more_than_its_weight": 5,
    "a_user_is_served_once_less_than_its_weight": 17,
    "a_weight_of_many_is_that_of_two": 17,
    "sessions_have_the_weight_of_their_user": 17,
    "what_one_user_leaves_of_its_row_is_taken_from_the_next": 29,
    "a_user_that_has_had_its_row_stays_first": 2,
}
"""Seeds that have found a defect; other defects are found by the first ones."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_was_accepted_is_answered_and_the_rest_is_refused_within_the_bounds_and_in_turn(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    seed = finding_seed(check, MUTANTS[name], FIRST.get(name, 0), range(SEEDS))
    assert seed is not None
    assert check(seed) == []


def test_crowds_are_answered_refused_and_cancelled() -> None:
    ends = Counter(answer.ended for seed in range(8) for answer in serve(crowd(seed), seed).answers)
    assert {*ends} == {"Finished", "OverloadedError", "TurnCancelledError"}
    assert min(ends.values()) >= 8
