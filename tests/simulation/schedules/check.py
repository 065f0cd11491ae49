"""One seed: its timetable, and what does not hold."""

from __future__ import annotations

from tests.simulation.schedules.invariants import problems
from tests.simulation.schedules.play import play
from tests.simulation.schedules.timetable import timetable


def check(seed: int) -> list[str]:
    """What does not hold for the timetable of a seed."""
    given = timetable(seed)
    return problems(given, play(given, seed))
