"""The worlds in which seeds look for mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.errors import RaygroveError
from tests.mutants.live import putting_in
from tests.mutants.mutant import Mutant, read_mutants
from tests.simulation.crowds.check import check as of_crowds
from tests.simulation.limits.check import check as of_limits
from tests.simulation.moves.check import check as of_moves
from tests.simulation.nodes.play import check as of_nodes
from tests.simulation.poison.check import check as of_poison
from tests.simulation.schedules.check import check as of_schedules
from tests.simulation.simulate import PLANS, Case, case, check, reference, replacing, standing_by
from tests.simulation.spending.check import check as of_spending
from tests.simulation.transport.world import problems as of_transport
from tests.simulation.updates.check import check as of_updates

FOLDER = Path(__file__).parent

Play = Callable[[], Sequence[str]]
"""Plays a seed, and returns what does not hold."""


class World(NamedTuple):
    """Where seeds look for the mutants of a file.

    Attributes:
        prepare: makes what plays a seed, without the mutant.
        seeds: how many the test run has.
        one_in: of the mutants the ordinary test run has one in so many; 0: the full set has them all.
    """

    prepare: Callable[[int], Play]
    seeds: int
    one_in: int = 1


def _of_deployments(given: Callable[[int], Case]) -> Callable[[int], Play]:
    def prepare(seed: int) -> Play:
        made, right = given(seed), reference(seed // PLANS)[1]
        return lambda: check(made, right)[0]

    return prepare


def _replacing(seed: int) -> Play:
    play = _of_deployments(replacing)(seed)
    return lambda: play() if replacing(seed) != case(seed) else []


def _whole(check: Callable[[int], Sequence[str]]) -> Callable[[int], Play]:
    """Of a world that needs nothing without the mutant."""
    return lambda seed: lambda: check(seed)


WORLDS: Mapping[str, World] = {
    **dict.fromkeys(("agents", "runner", "turns", "log", "drivers"), World(_of_deployments(case), 300, one_in=4)),
    "replacing": World(_replacing, 300),
    "standbys": World(_of_deployments(standing_by), 300, one_in=4),
    "crowds": World(_whole(of_crowds), 120, one_in=3),
    "limits": World(_whole(of_limits), 120, one_in=0),
    "moves": World(_whole(of_moves), 120),
    "nodes": World(_whole(of_nodes), 60),
    "poison": World(_whole(of_poison), 120, one_in=2),
    "schedules": World(_whole(of_schedules), 120),
    "spending": World(_whole(of_spending), 120, one_in=0),
    "transport": World(_whole(of_transport), 300),
    "updates": World(_whole(of_updates), 120, one_in=4),
}
"""By the names of the files of mutants."""


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
    return not WORLDS[MUTANTS[name].world].prepare(seed)()


def is_found(name: str, seed: int) -> bool:
    """True if a seed fails with a mutant."""
    mutant, world = MUTANTS[name]
    play = WORLDS[world].prepare(seed)
    with putting_in(mutant):
        try:
            return bool(play())
        except RaygroveError:
            # What the program itself asked for has failed.
            return True
