"""The simulated store goes back in time at any moment of turns: logs have no holes, and no loss is silent."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import weakref
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.simulation.drivers import Driver
from tests.simulation.play import KEY
from tests.simulation.scenarios import Node, Step
from tests.simulation.scenes import outcome_of, play_scene, run_turn
from tests.simulation.stores import Disk
from tests.simulation.world import World

TURNS = 6


class KeptDisk:
    """A copy of all that a disk has now."""

    def __init__(self, disk: Disk) -> None:
        live: object = disk.store._database._connected().connection.dbapi_connection
        assert isinstance(live, sqlite3.Connection)
        self._live = live
        self._kept = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._kept.close)
        self._live.backup(self._kept)

    def restore(self) -> None:
        """Put the copy in the place of what the disk has become."""
        assert isinstance(self._live, sqlite3.Connection)
        self._kept.backup(self._live)


@dataclass
class Played:
    """What came of turns between which the store went back.

    Attributes:
        outcomes: of the turns, in their order.
        lost: how many events the copy lacked.
        log: the positions of all events in the end.
    """

    outcomes: list[str] = field(default_factory=list)
    lost: int = 0
    log: list[int] = field(default_factory=list)


async def play_act(world: World, seed: int) -> Played:
    """Turns one after the other; at some time a copy is made, and at a later one it takes the store's place."""
    chance, played, driver = random.Random(f"older {seed}"), Played(), Driver(world)
    kept_s = chance.uniform(0.5, 6.0)
    back = asyncio.create_task(_go_back(world, played, kept_s, chance.uniform(0.05, 6.0)))
    while not back.done() or len(played.outcomes) < TURNS:
        outcome, _ = await outcome_of(driver, run_turn(driver, f"e-{len(played.outcomes)}"))
        played.outcomes.append(outcome)
    # One more: the store may have gone back while nothing ran.
    for last in ("last", "after"):
        played.outcomes.append((await outcome_of(driver, run_turn(driver, last)))[0])
    played.log = _log(world)
    return played


async def _go_back(world: World, played: Played, kept_s: float, after_s: float) -> None:
    await asyncio.sleep(kept_s)
    kept, before = KeptDisk(world.disk), len(_log(world))
    await asyncio.sleep(after_s)
    played.lost = len(_log(world)) - before
    kept.restore()


def _log(world: World) -> list[int]:
    return [seq for seq, _ in world.disk.store.events(KEY)]


ROOT = Node(kind="llm", name="quick", steps=(Step(does="work", takes_s=0.3), Step(does="work", takes_s=0.3)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_store_that_goes_back_leaves_no_hole_and_tells_what_is_gone(first: int) -> None:
    for seed in range(first, first + 10):
        played = play_scene(ROOT, partial(play_act, seed=seed))
        assert played.log == list(range(1, len(played.log) + 1)), seed
        assert (played.lost > 0) is ("EventsLostError" in played.outcomes), (seed, played)
        assert set(played.outcomes) <= {"Finished", "EventsLostError"}, (seed, played)
        assert played.outcomes[-1] == "Finished", (seed, played)
