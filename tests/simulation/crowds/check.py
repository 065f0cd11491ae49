"""One seed: its crowd, and what does not hold."""

from __future__ import annotations

from tests.simulation.crowds.crowd import crowd
from tests.simulation.crowds.invariants import problems
from tests.simulation.crowds.play import serve


def check(seed: int) -> list[str]:
    """What does not hold for the crowd of a seed."""
    given = crowd(seed)
    return problems(given, serve(given, seed))
