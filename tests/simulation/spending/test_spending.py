"""Budgets hold while actors are lost, stopped and cut off, and the store is away: see `tests.simulation.spending.check`."""

from __future__ import annotations

import pytest

from tests.simulation.spending.check import DAILY, check, spending
from tests.simulation.spending.mutants import MUTANTS

SEEDS = 120
PART = 20

FIRST = {
    "calls_under_way_do_not_count": 96,
    "turns_before_do_not_count": 9,
    "lost_actors_forget_what_was_used": 10,
    "refusals_are_ignored": 0,
    "users_never_begin_anew": 30,
    "apps_never_begin_anew": 9,
}
"""Seeds that have found each defect."""


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_budget_is_overspent_by_more_than_a_call_of_each_agent(first: int) -> None:
    assert {seed: found[0] for seed in range(first, first + PART) if (found := check(seed))} == {}


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    with MUTANTS[name]():
        # Where that seed finds it no more, since the code has changed, another one does.
        seed = next((seed for seed in (FIRST[name], *range(SEEDS)) if check(seed)), None)
    assert seed is not None
    assert check(seed) == []


@pytest.mark.full
def test_cases_have_each_budget_with_faults_and_without() -> None:
    cases = [spending(seed) for seed in range(16)]
    assert len({case.scenario.budget for case in cases}) == 4
    assert {bool(case.plan.faults) for case in cases} == {True, False}
    assert {case.scenario.budget for case in map(spending, range(SEEDS)) if case.scenario.midnight} == {*DAILY}
