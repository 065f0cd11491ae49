"""One seed: its users and programs, and what does not hold."""

from __future__ import annotations

from tests.simulation.moves.plan import plan
from tests.simulation.moves.play import play


def check(seed: int) -> list[str]:
    """What does not hold for a seed."""
    return play(plan(seed), seed).problems
