"""Which of many turns may be among the largest, without adding up each.

Rules of this file:

- A column, one number of all turns, is a whole number of many digits: 64 bits for each turn. One multiplication and one addition
  weigh a column of ten thousand turns, so that takes a third of the time of numbers that are weighed one by one.
- Weights are cut to whole numbers. So a turn's sum is known within bounds only: at least what they say, and at most one more for
  each that was counted. Who leaves out a turn whose upper bound is below enough lower ones leaves out none of the largest.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, compress

from actors.rules.accounting.turn_usage import Amounts, Kind

Weights = Sequence[Mapping[str, float]]
"""For each agent and model of a first part, how much some fields of its amounts count."""

_COUNT_BITS = 31
"""Of the largest number that is weighed so: two thousand million tokens of one agent and model in a turn."""

_SUM_BITS = 61
_LANE = 8
_MIDDLE = 2 ** (_SUM_BITS + 1)
"""What is added to each sum: weights may be below zero, and a lane may not."""


def narrowed(kinds: Sequence[Kind], weights_of: Callable[[bytes], Weights], most: int) -> Sequence[Kind]:
    """The turns without most of those that are certainly not among the `most` whose weighted sums are the largest."""
    weighed = [weights_of(who) for who, _ in kinds]
    every = [abs(weight) for by_place in weighed for by_field in by_place for weight in by_field.values() if weight]
    if not every or sum(len(same) for _, same in kinds) <= most:
        return kinds
    unit = 2 ** (_SUM_BITS - _COUNT_BITS - len(every).bit_length()) / max(every)
    bounds = [_bounds(who, same, each, unit) for (who, same), each in zip(kinds, weighed, strict=True)]
    known = [each for each in bounds if each is not None]
    if len(known) < len(kinds):
        return kinds
    last = nlargest(most, chain.from_iterable(lower for lower, _ in known))[-1]
    return [(who, [*compress(same, map(last.__le__, upper))]) for (who, same), (_, upper) in zip(kinds, known, strict=True)]


def columns(who: bytes, same: Sequence[bytes], weights_of: Weights) -> Iterator[tuple[float, array[int]]]:
    """The numbers of turns with one first part that count, a column for each, with how much it counts."""
    numbers = array("q", b"".join([raw[len(who) :] for raw in same]))
    if sys.byteorder == "big":
        numbers.byteswap()
    fields = Amounts._fields
    for place, by_field in enumerate(weights_of):
        for field, weight in by_field.items():
            if weight:
                first = place * len(fields) + fields.index(field)
                yield weight, numbers[first :: len(weights_of) * len(fields)]


def _bounds(who: bytes, same: Sequence[bytes], weights_of: Weights, unit: float) -> tuple[array[int], array[int]] | None:
    """For each turn the least and the most that its sum can be; None if a number is too large for it."""
    ones = _lanes(array("q", [1]) * len(same))
    too_large = ones * (2**64 - 2**_COUNT_BITS)
    lower, counted = ones * _MIDDLE, 0
    for weight, column in columns(who, same, weights_of):
        lanes = _lanes(column)
        if lanes & too_large:
            return None
        lower += lanes * int(weight * unit // 1)
        counted += lanes
    return _of_lanes(lower, len(same)), _of_lanes(lower + counted, len(same))


def _lanes(column: array[int]) -> int:
    return int.from_bytes(column.tobytes(), sys.byteorder)


def _of_lanes(lanes: int, count: int) -> array[int]:
    return array("q", lanes.to_bytes(_LANE * count, sys.byteorder))
