"""One seed: its edition, and what does not hold."""

from __future__ import annotations

from tests.simulation.updates.edition import edition
from tests.simulation.updates.invariants import problems
from tests.simulation.updates.play import play


def check(seed: int) -> list[str]:
    """What does not hold for the edition of a seed."""
    return problems(play(edition(seed), seed))
