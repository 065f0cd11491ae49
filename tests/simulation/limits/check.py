"""One seed: its traffic, and what does not hold."""

from __future__ import annotations

from tests.simulation.limits.invariants import problems
from tests.simulation.limits.play import play
from tests.simulation.limits.traffic import traffic


def check(seed: int) -> list[str]:
    """What does not hold for the traffic of a seed."""
    given = traffic(seed)
    return problems(given, play(given, seed))
