"""Many more simulations than the ordinary test run plays, and all of those that notice defects: see `tests/simulation`."""

from __future__ import annotations

import pytest

from tests.simulation.mutants.table import rows
from tests.simulation.mutants.worlds import MUTANTS, WORLDS, is_found
from tests.simulation.simulate import PLANS, check, reference, run_seed, standing_by

SEEDS = 20_000
PART = 500

OFTEN = {"commits_are_acknowledged_early": 30}
"""Defects that more seeds have to find than one."""


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_has_to_hold_holds_whatever_goes_wrong(first: int) -> None:
    failed = {seed: problems[0] for seed in range(first, first + PART) if (problems := run_seed(seed))}
    assert failed == {}, f"tell and shrink one with: python -m tests.simulation {next(iter(failed))}"


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS // 10, PART))
def test_it_holds_as_well_when_a_runner_has_a_standby(first: int) -> None:
    failed: dict[int, str] = {}
    for seed in range(first, first + PART):
        problems, _, _ = check(standing_by(seed), reference(seed // PLANS)[1])
        failed |= {seed: problems[0]} if problems else {}
    assert failed == {}


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name, row in rows().items() if row.seeds])
def test_the_seeds_of_the_test_run_find_each_defect(name: str) -> None:
    seeds = {*rows()[name].seeds, *range(WORLDS[MUTANTS[name].world].seeds)}
    found = [seed for seed in seeds if is_found(name, seed)]
    assert len(found) >= OFTEN.get(name, 1)
