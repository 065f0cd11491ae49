"""Each turn runs by the version that it began with, and none is lost, while trees are given and actors and programs are lost.

`tests.simulation.updates.check.check(seed)` says what does not hold for a seed.
"""

from __future__ import annotations

import pytest

from actors.errors import RaygroveError
from tests.simulation.seeds import failing, finding_seed
from tests.simulation.updates.check import check
from tests.simulation.updates.edition import edition
from tests.simulation.updates.mutants import MUTANTS
from tests.simulation.updates.play import play

SEEDS = 120
PART = 5

FIRST = {
    "changed_agents_are_taken_for_the_same": 0,
    "turns_run_by_what_new_ones_get": 0,
    "rollbacks_forget_what_is_in_use": 85,
    "session_actors_are_not_told_of_updates": 2,
    "turns_that_go_on_get_the_current_version": 2,
    "restarted_session_actors_forget_updates": 3,
    "trees_of_open_turns_are_given_up": 2,
    "older_records_are_taken": 59,
}
"""Seeds that have found each defect."""


@pytest.mark.sampled(24)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_each_turn_runs_by_the_version_that_it_began_with(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


def fails(seed: int) -> bool:
    """Whether a seed finds a defect: a turn, or an update itself."""
    try:
        return bool(check(seed))
    except RaygroveError:
        return True


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    seed = finding_seed(fails, MUTANTS[name], FIRST[name], range(SEEDS))
    assert seed is not None
    assert check(seed) == []


@pytest.mark.full
def test_editions_have_updates_rollbacks_shares_pauses_losses_and_conflicts() -> None:
    seeds = range(0, SEEDS, 8)
    left = {seed: play(edition(seed), seed) for seed in seeds}
    records = [record for each in left.values() for _, _, record in each.records]
    assert len(records) > 30
    assert any(record.share is not None for record in records)
    assert any(edit.deed == "rollback" for seed in seeds for edit in edition(seed).edits)
    assert any("UpdateConflictError" in each.errors for each in left.values())
    assert any(played.wish.asks and played.status == "finished" for each in left.values() for played in each.played)
    assert any(edition(seed).plan.faults for seed in seeds)
