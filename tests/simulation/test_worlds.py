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
from tests.simulation.telling import as_test
from tests.simulation.worlds import WORLDS


def _parts() -> Iterator[Any]:
    """Some of the seeds of each world; of those that the ordinary run leaves out a quarter is in the full set."""
    for name, world in WORLDS.items():
        for place, first in enumerate(range(0, world.seeds, world.part)):
            is_ordinary = world.one_in and place % world.one_in == 0
            marks = [] if is_ordinary else [pytest.mark.full, pytest.mark.sampled(full=4)]
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
