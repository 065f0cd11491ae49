"""How far measurements of the same differ, in a few figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

_PARTS = 100
"""So the slowest of a hundred is among the figures."""


def spread(values: Sequence[float], middle: float = 1.0, parts: int = _PARTS) -> list[float]:
    """The means of as many equal parts of the values, from the least to the highest, divided by `middle`.

    The mean of all of them is that of the values, whatever their slowest are.
    """
    ordered = sorted(values)
    bounds = [number * len(ordered) // parts for number in range(parts + 1)]
    return [round(mean(ordered[begin:end]) / middle, 3) for begin, end in pairwise(bounds) if end > begin]
