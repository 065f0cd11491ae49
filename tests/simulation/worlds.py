"""All worlds, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.simulation.background.errands import errands
from tests.simulation.background.play import play as play_errands
from tests.simulation.conversations import case as conversation
from tests.simulation.conversations import played as play_conversation
from tests.simulation.crowds.crowd import crowd
from tests.simulation.crowds.play import play as play_crowd
from tests.simulation.frame import Left, World
from tests.simulation.limits.invariants import problems as of_limits
from tests.simulation.limits.play import play as play_limits
from tests.simulation.limits.traffic import traffic
from tests.simulation.moves.plan import plan
from tests.simulation.moves.play import play as play_moves
from tests.simulation.nodes.play import play as play_nodes
from tests.simulation.nodes.weather import weather
from tests.simulation.poison import crowd as poisoned
from tests.simulation.poison import play as play_poison
from tests.simulation.schedules.play import play as play_schedules
from tests.simulation.schedules.timetable import timetable
from tests.simulation.simulate import case, played, replacing, standing_by
from tests.simulation.spending.check import play as play_spending
from tests.simulation.spending.check import spending
from tests.simulation.steering.play import play as play_steering
from tests.simulation.steering.talk import talk
from tests.simulation.transport.world import play as play_transport
from tests.simulation.transport.world import walk
from tests.simulation.updates.edition import edition
from tests.simulation.updates.play import play as play_updates


def _judged(play: Callable[[Any, int], Left], problems: Callable[[Any, Any], Iterable[str]]) -> Callable[[Any, int], Left]:
    """Plays a scenario, and adds what does not hold."""

    def judged(given: Any, seed: int) -> Left:
        left = play(given, seed)
        left.problems += problems(given, left)
        return left

    return judged


WORLDS: Mapping[str, World] = {
    "deployments": World(case, played, 300, part=15, one_in=10, more=20_000),
    "replacing": World(replacing, played, 150, part=15, one_in=10),
    "standbys": World(standing_by, played, 150, part=15, one_in=10, more=2_000),
    "conversations": World(conversation, play_conversation, part=12, one_in=2, more=5_000),
    "background": World(errands, play_errands, one_in=12, more=3_000),
    "crowds": World(crowd, play_crowd, one_in=12, more=5_000),
    "limits": World(traffic, _judged(play_limits, of_limits), one_in=12, more=5_000),
    "moves": World(plan, play_moves, part=6, one_in=20, more=2_000),
    "nodes": World(weather, play_nodes, 60, one_in=3, more=3_000),
    "poison": World(poisoned, play_poison, one_in=6, more=3_000),
    "schedules": World(timetable, play_schedules, one_in=16, more=5_000),
    "spending": World(spending, play_spending, part=20, one_in=0, more=2_000),
    "steering": World(talk, play_steering, one_in=12, more=3_000),
    "transport": World(walk, play_transport, 300, part=100, one_in=3, more=100_000),
    "updates": World(edition, play_updates, part=5, one_in=24),
}


def numbered(name: str, seed: int) -> tuple[int, list[str]]:
    """A seed of a world, and what does not hold for it."""
    return seed, WORLDS[name].check(seed)
