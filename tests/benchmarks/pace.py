"""The pace of the machine and its interpreter, by a fixed piece of work: what figures in seconds are to be read beside.

A core of a virtual machine runs at half its speed while a neighbour uses the other half of its physical core, which may change
within a second and stay for hours; and one build of a version of Python takes twice as long as another.
"""

from __future__ import annotations

import statistics
import time

_OBJECTS = 40_000


class _Link:
    __slots__ = ("number", "previous")

    def __init__(self, number: int, previous: _Link | None) -> None:
        self.number = number
        self.previous = previous


def pace_ms() -> float:
    """What the work takes now: the median of five times, a sixth of a second in all."""
    return statistics.median(_timed_ms() for _ in range(5))


def _timed_ms() -> float:
    began_s = time.perf_counter()
    _work()
    return (time.perf_counter() - began_s) * 1_000


def _work() -> int:
    """Makes, links and forgets small objects, as the handling of messages does."""
    kept: dict[str, list[object]] = {}
    link = None
    for number in range(_OBJECTS):
        link = _Link(number, link if number % 50 else None)
        kept[str(number % 997)] = [link.number, (number, link.previous)]
    return len(kept)
