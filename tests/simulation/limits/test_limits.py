"""Limits of models hold while programs change them, and actors and agents are lost and stopped.

`tests.simulation.limits.check.check(seed)` says what does not hold for a seed.
"""

from __future__ import annotations

import pytest

from tests.simulation.limits.check import check
from tests.simulation.limits.mutants import MUTANTS
from tests.simulation.limits.play import play
from tests.simulation.limits.traffic import traffic
from tests.simulation.seeds import failing, finding_seed

SEEDS = 120
PART = 10

FIRST = {
    "released_permits_are_forgotten": 106,
    "calls_that_lost_their_place_are_refused": 202,
    "a_stopped_actor_ends_all_leases": 1840,
    "changes_are_lost_with_the_actor": 11,
    "changes_at_once_overwrite_each_other": 123,
    "models_in_use_keep_their_limits": 3,
    "waiting_calls_do_not_hear_of_changes": 0,
    "resets_change_nothing": 3,
    "resets_are_of_all_models": 0,
    "changes_forget_other_fields": 0,
    "leases_never_end": 13,
    "running_calls_are_not_told": 4,
    "calls_that_end_early_stay_in_line": 2,
    "requests_that_are_sent_again_are_new": 40,
    "users_do_not_take_turns": 3,
    "failed_calls_keep_their_permits": 1,
    "minutes_begin_anew_with_changes": 3,
    "tokens_do_not_count": 2,
}
"""Seeds that have found each defect."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_limits_hold_and_each_call_is_let_in(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_a_seed_finds_a_defect(name: str) -> None:
    seed = finding_seed(check, MUTANTS[name], FIRST[name], range(SEEDS))
    assert seed is not None
    assert check(seed) == []


@pytest.mark.full
def test_traffic_has_changes_losses_and_stops_of_the_actor_and_of_agents() -> None:
    seeds = range(0, SEEDS, 4)
    left = {seed: play(traffic(seed), seed) for seed in seeds}
    assert sum(len(each.world.lives) > 1 for each in left.values()) > 3
    stopped = {name.split("#")[0].split()[0] for each in left.values() for name, _, _ in each.world.frozen}
    assert stopped >= {"limiter", "agent"}
    assert any(died.startswith(("agent", "group")) for each in left.values() for died in each.world.died_s)
    changes = [changed for each in left.values() for changed in each.changed]
    assert {changed.change.fields is None for changed in changes if changed.ended == "ok"} == {True, False}
    ended = {asked.ended for each in left.values() for asked in each.asked}
    assert "Finished" in ended
    assert any(made.failed for each in left.values() for made in each.made)
    assert any(traffic(seed).is_plain for seed in seeds)
