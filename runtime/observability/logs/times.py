"""The order of what several processes have made, each by a clock that may be another one, or set back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def by_time(made: Iterable[T], at_s: Callable[[T], float], source: Callable[[T], Hashable]) -> Sequence[T]:
    """Put together what several processes have made, by its times.

    What one process has made stays in its order: where its clock was set back, what came after stands at the time before that.

    Args:
        made: of each process in the order in which it was made.
        at_s: tells when one was made, in seconds since the epoch.
        source: tells which process has made it.
    """
    latest_s: dict[Hashable, float] = {}
    placed = []
    for each in made:
        process = source(each)
        latest_s[process] = max(at_s(each), latest_s.get(process, 0.0))
        placed.append((latest_s[process], each))
    return [each for _, each in sorted(placed, key=lambda place: place[0])]
