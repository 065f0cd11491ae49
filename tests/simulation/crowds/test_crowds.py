"""Crowds ask for more than a deployment takes, and some of what they ask for is lost, stopped or cancelled on its way.

`tests.simulation.crowds.check.check(seed)` says what does not hold for a seed. `tests/chaos` plays many more.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.crowds.check import check
from tests.simulation.crowds.crowd import crowd
from tests.simulation.crowds.play import serve
from tests.simulation.seeds import failing

SEEDS = 120
PART = 10


@pytest.mark.sampled(12)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_was_accepted_is_answered_and_the_rest_is_refused_within_the_bounds_and_in_turn(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


def test_crowds_are_answered_refused_and_cancelled() -> None:
    ends = Counter(answer.ended for seed in range(8) for answer in serve(crowd(seed), seed).answers)
    assert {*ends} == {"Finished", "OverloadedError", "TurnCancelledError"}
    assert min(ends.values()) >= 8
