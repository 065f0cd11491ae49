"""Many more seeds of each world than the ordinary test run plays, and all that notice defects: see `tests/simulation`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.mutants.table import rows
from tests.simulation.mutants.worlds import MUTANTS, WORLDS, is_found
from tests.simulation.worlds import WORLDS as ALL

PARTS = 10

OFTEN = {"commits_are_acknowledged_early": 30}
"""Defects that more seeds have to find than one."""


def _parts() -> Iterator[Any]:
    for name, world in ALL.items():
        size = min(world.more // PARTS, 5_000) or 1
        yield from (pytest.param(name, first, size, id=f"{name}-{first}") for first in range(0, world.more, size))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "first", "size"), list(_parts()))
def test_what_has_to_hold_holds_whatever_goes_wrong(name: str, first: int, size: int) -> None:
    failed = ALL[name].failing(range(first, first + size))
    assert failed == {}, f"tell and shrink one with: python -m tests.simulation {name} {next(iter(failed))}"


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name, row in rows().items() if row.seeds])
def test_the_seeds_of_the_test_run_find_each_defect(name: str) -> None:
    seeds = {*rows()[name].seeds, *range(WORLDS[MUTANTS[name].world].seeds)}
    found = [seed for seed in seeds if is_found(name, seed)]
    assert len(found) >= OFTEN.get(name, 1)
