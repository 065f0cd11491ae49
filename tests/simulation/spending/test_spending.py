"""Budgets hold while actors are lost, stopped and cut off, and the store is away: see `tests.simulation.spending.check`."""

from __future__ import annotations

import pytest

from tests.simulation.spending.check import AT_LIMIT, BUDGETS, DAILY, spending

SEEDS = 120


@pytest.mark.soak
def test_cases_have_each_budget_with_faults_and_without() -> None:
    cases = [spending(seed) for seed in range(SEEDS)]
    kinds = {(case.scenario.budget, case.scenario.at_limit) for case in cases}
    assert len(kinds) == len(BUDGETS) * len(AT_LIMIT)
    assert {bool(case.plan.faults) for case in cases} == {True, False}
    assert {case.scenario.then for case in cases} == {"", "fork", "rewind"}
    assert {case.scenario.budget for case in cases if case.scenario.midnight} == {*DAILY}
    deeds = {act.deed for case in cases for acts in case.scenario.turns for act in acts}
    assert deeds >= {"answer", "midnight", "beside"}
