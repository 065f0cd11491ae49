"""Budgets hold while actors are lost, stopped and cut off, and the store is away: see `tests.simulation.spending.check`."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import failing, finding_seed
from tests.simulation.spending.check import AT_LIMIT, BUDGETS, DAILY, check, spending
from tests.simulation.spending.mutants import MUTANTS

SEEDS = 120
PART = 20

FIRST = {
    "calls_under_way_do_not_count": 0,
    "turns_before_do_not_count": 0,
    "lost_actors_forget_what_was_used": 1,
    "refusals_are_ignored": 0,
    "days_never_begin_anew": 15,
    "what_was_begun_yesterday_is_forgotten": 178,
    "sessions_of_a_user_know_nothing_of_each_other": 8,
    "agents_below_do_not_count": 72,
    "more_is_given_twice": 0,
    "no_is_not_heard": 0,
    "answers_are_lost_with_the_session_actor": 0,
    "questions_are_asked_again": 165,
    "agents_end_twice": 10,
    "heirs_ask_agents_to_end_again": 10,
    "calls_beyond_that_nobody_knew_of_do_not_count": 2129,
    "the_cheaper_model_is_not_called": 7,
    "forks_have_used_what_they_copied": 9,
    "what_was_rewound_was_not_used": 0,
}
"""Seeds that have found each defect."""


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_budget_is_overspent_by_more_than_a_call_of_each_agent(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    seed = finding_seed(check, MUTANTS[name], FIRST[name], range(SEEDS))
    assert seed is not None
    assert check(seed) == []


@pytest.mark.full
def test_cases_have_each_budget_with_faults_and_without() -> None:
    cases = [spending(seed) for seed in range(SEEDS)]
    kinds = {(case.scenario.budget, case.scenario.at_limit) for case in cases}
    assert len(kinds) == len(BUDGETS) * len(AT_LIMIT)
    assert {bool(case.plan.faults) for case in cases} == {True, False}
    assert {case.scenario.then for case in cases} == {"", "fork", "rewind"}
    assert {case.scenario.budget for case in cases if case.scenario.midnight} == {*DAILY}
    deeds = {act.deed for case in cases for acts in case.scenario.turns for act in acts}
    assert deeds >= {"answer", "midnight", "beside"}
