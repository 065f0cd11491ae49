"""The worlds in which seeds look for mutants."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from actors.errors import RaygroveError
from tests.mutants.live import putting_in
from tests.mutants.mutant import Mutant, read_mutants
from tests.simulation import worlds
from tests.simulation.frame import World

FOLDER = Path(__file__).parent

WORLDS: Mapping[str, World] = {
    **dict.fromkeys(("agents", "runner", "turns", "log", "drivers"), worlds.WORLDS["deployments"]),
    **{name: world for name, world in worlds.WORLDS.items() if name != "deployments"},
}
"""By the names of the files of mutants."""

ONE_IN = {"limits": 0, "spending": 0, "transport": 1}
"""Of the mutants of a world the ordinary test run has one in so many, if not in ten; 0: none."""


class Placed(NamedTuple):
    """A mutant, and the name of its world."""

    mutant: Mutant
    world: str


MUTANTS: Mapping[str, Placed] = {
    name: Placed(mutant, world) for world in WORLDS for name, mutant in read_mutants(FOLDER / f"{world}.toml").items()
}
"""All of them, by name."""


def plays_right(name: str, seed: int) -> bool:
    """True if a seed finds nothing in the world of a mutant, without it."""
    return not WORLDS[MUTANTS[name].world].check(seed)


def is_found(name: str, seed: int) -> bool:
    """True if a seed fails with a mutant. Its scenario is made without it."""
    mutant, world = MUTANTS[name]
    given = WORLDS[world].scenario(seed)
    with putting_in(mutant), warnings.catch_warnings():
        # A defect may leave tasks that have not ended, of which Python warns when it collects them: not in another test.
        warnings.simplefilter("ignore")
        found = _fails(WORLDS[world], given, seed)
        gc.collect()
    return found


def _fails(world: World, given: Any, seed: int) -> bool:
    try:
        return bool(world.play(given, seed).problems)
    except RaygroveError:
        # What the program itself asked for has failed.
        return True
