"""Simulations of whole deployments, in several worlds: whatever goes wrong, what has to hold holds.

A seed that fails is told, and made small, by `python -m tests.simulation WORLD SEED`. `tests/chaos` plays many more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.simulation import frame, poison
from tests.simulation.crowds.crowd import crowd
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.limits.play import play as play_limits
from tests.simulation.limits.traffic import traffic
from tests.simulation.moves.plan import plan
from tests.simulation.moves.play import play as play_moves
from tests.simulation.nodes.weather import weather
from tests.simulation.schedules.play import play as play_schedules
from tests.simulation.schedules.timetable import timetable
from tests.simulation.spending.check import AT_LIMIT, BUDGETS, DAILY, spending
from tests.simulation.telling import as_test
from tests.simulation.updates.edition import edition
from tests.simulation.updates.play import play as play_updates
from tests.simulation.worlds import WORLDS


def _parts() -> Iterator[Any]:
    """Some of the seeds of each world; of those that the ordinary run leaves out an eighth is in the full set."""
    for name, world in WORLDS.items():
        for place, first in enumerate(range(0, world.seeds, world.part)):
            is_ordinary = world.one_in and place % world.one_in == 0
            marks = [] if is_ordinary else [pytest.mark.full, pytest.mark.sampled(full=8)]
            yield pytest.param(name, first, marks=marks)


@pytest.mark.parametrize(("name", "first"), list(_parts()))
def test_what_has_to_hold_holds_whatever_goes_wrong(name: str, first: int) -> None:
    failed = WORLDS[name].failing(range(first, first + WORLDS[name].part))
    assert failed == {}, f"tell and shrink one with: python -m tests.simulation {name} {next(iter(failed))}"


def test_a_scenario_that_goes_round_in_circles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def circles(*_: object) -> None:
        while True:
            with suppress(Exception):
                await ended()

    async def ended() -> None: ...

    monkeypatch.setattr(frame, "MOST_CPU_S", 0.1)
    assert in_virtual_time(Left(), 0, circles).problems == ["hang: not over after 0.1 s of CPU time"]


@pytest.mark.parametrize("name", WORLDS)
def test_a_scenario_is_printed_as_a_test_that_plays_it(name: str) -> None:
    given, names, played = WORLDS[name].scenario(2), dict[str, Any](), list[tuple[Any, int]]()

    def play(*of: Any) -> Left:
        played.append(of)
        return Left()

    exec("\n".join(as_test(name, given, 2)), names)
    names["WORLDS"] = {name: WORLDS[name]._replace(play=play)}
    names[f"test_what_seed_2_of_{name}_has_found"]()
    assert [list(as_test(name, *each)) for each in played] == [list(as_test(name, given, 2))]


@pytest.mark.full
def test_poisoned_users_meet_users_who_think_and_work() -> None:
    crowds = [poison.crowd(seed) for seed in range(12)]
    turns = [asked for each in crowds for asked in each.turns]
    assert {asked.does for asked in turns if not asked.crashes} == {"think", "work"}
    assert {(asked.does, asked.has_expert) for asked in turns if asked.crashes} == {
        ("work", False),
        ("work", True),
        ("call back", False),
    }
    assert any("runner" in asked.takes for asked in turns)
    assert sum(poison.play(each, seed).runs.total() for seed, each in enumerate(crowds)) > 100


@pytest.mark.full
def test_crowds_are_answered_refused_and_cancelled() -> None:
    asks = [ask for seed in range(8) for ask in WORLDS["crowds"].play(crowd(seed), seed).history.asks if ask.what == "run"]
    ends = Counter(ask.ended for ask in asks)
    assert {*ends} == {"Finished", "OverloadedError", "TurnCancelledError"}
    assert min(ends.values()) >= 8


@pytest.mark.full
def test_traffic_has_changes_losses_and_stops_of_the_actor_and_of_agents() -> None:
    seeds = range(0, 120, 4)
    left = [play_limits(traffic(seed), seed) for seed in seeds]
    assert sum(len(each.world.lives) > 1 for each in left) > 3
    stopped = {name.split("#")[0].split()[0] for each in left for name, _, _ in each.world.frozen}
    assert stopped >= {"limiter", "agent"}
    assert any(died.startswith(("agent", "group")) for each in left for died in each.world.died_s)
    changes = [change for each in left for change, ask in each.changed if ask.ended == "done"]
    assert {change.fields is None for change in changes} == {True, False}
    assert "Finished" in {ask.ended for each in left for _, ask in each.asked}
    assert any(made.failed for each in left for made in each.made)
    assert any(traffic(seed).is_plain for seed in seeds)


@pytest.mark.full
def test_programs_and_session_actors_are_lost_stopped_and_replaced_in_the_midst_of_moves() -> None:
    left = [play_moves(plan(seed), seed) for seed in range(20)]
    assert sum(each.moved for each in left) > 30
    assert sum(each.talked for each in left) > 20
    fired = {what for each in left for what in each.fired}
    assert fired >= {"kill sender", "freeze sender", "kill receiver", "kill another", "replace", "store unsure", "a part is lost"}


@pytest.mark.full
def test_a_seed_of_moves_does_the_same_steps_again() -> None:
    for seed in range(3):
        assert play_moves(plan(seed), seed).trace.digest() == play_moves(plan(seed), seed).trace.digest()


def test_nodes_come_drain_and_end_while_turns_run() -> None:
    given = [weather(seed) for seed in range(30)]
    assert {change.what for each in given for change in each.changes} == {"comes", "drains", "ends"}
    assert 5 < sum(each.is_mild for each in given) < 20
    assert {asked.program for each in given for asked in each.turns} == {0, 1}


def test_timetables_have_turns_losses_pauses_and_deletions() -> None:
    left = [play_schedules(timetable(seed), seed) for seed in range(12)]
    assert sum(len(messages) for each in left for messages in each.messages.values()) > 100
    assert any(made.pauses for each in left for made in each.made)
    assert any(made.deleted_s for each in left for made in each.made)


@pytest.mark.soak
def test_cases_have_each_budget_with_faults_and_without() -> None:
    cases = [spending(seed) for seed in range(120)]
    kinds = {(case.scenario.budget, case.scenario.at_limit) for case in cases}
    assert len(kinds) == len(BUDGETS) * len(AT_LIMIT)
    assert {bool(case.plan.faults) for case in cases} == {True, False}
    assert {case.scenario.then for case in cases} == {"", "fork", "rewind"}
    assert {case.scenario.budget for case in cases if case.scenario.midnight} == {*DAILY}
    deeds = {act.deed for case in cases for acts in case.scenario.turns for act in acts}
    assert deeds >= {"answer", "midnight", "beside"}


@pytest.mark.full
def test_editions_have_updates_rollbacks_shares_pauses_losses_and_conflicts() -> None:
    editions = {seed: edition(seed) for seed in range(0, 120, 8)}
    left = [play_updates(given, seed) for seed, given in editions.items()]
    records = [record for each in left for _, _, record in each.records]
    assert len(records) > 30
    assert any(record.share is not None for record in records)
    assert any(edit.deed == "rollback" for given in editions.values() for edit in given.edits)
    assert any("UpdateConflictError" in each.errors for each in left)
    assert any(ask.responses and ask.ended == "Finished" for each in left for ask in each.history.asks)
    assert any(given.plan.faults for given in editions.values())
