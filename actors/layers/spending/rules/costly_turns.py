"""The turns that have cost most, of many.

Rules of this file:

- Turns are compared column by column: one number of all turns with equal first parts at a time. To add up each turn by itself
  takes ten times as long, and of ten thousand a report lists a hundred. Bounds of all leave few to compare: see `narrowed`.
- A column is a whole number of many digits: 64 bits for each turn. One multiplication and one addition weigh a column of ten
  thousand turns, so that takes a third of the time of numbers that are weighed one by one.
- Weights are cut to whole numbers, so a turn's sum is known within bounds: at least what they say, and at most one more for each
  that was counted. To leave out a turn whose upper bound is below enough lower ones leaves out none of the largest.
- What counts is money, and tokens where that is the same, as it is for turns of models without a price.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import nlargest
from itertools import chain, compress, repeat
from operator import add, itemgetter, mul
from typing import Generic, TypeVar

from actors.layers.spending.messages import UsageSums
from actors.layers.spending.rules.budgets import price_of, weights
from actors.layers.spending.rules.packed_usage import Kind, models_of
from actors.messages.costs import Price
from actors.rules.accounting.turn_usage import Amounts

Weights = Sequence[Mapping[str, float]]
"""For each agent and model of a first part, how much some fields of its amounts count."""

_COUNT_BITS = 31
"""Of the largest number that is weighed so: two thousand million tokens of one agent and model in a turn."""

_SUM_BITS = 61
_LANE = 8
_MIDDLE = 2 ** (_SUM_BITS + 1)
"""What is added to each sum: weights may be below zero, and a lane may not."""

At = TypeVar("At")
"""What names a turn."""

_TOKENS = {"input_tokens": 1.0, "output_tokens": 1.0, "reasoning_tokens": 1.0}


class CostlyTurns(Generic[At]):
    """Finds the turns that have cost most.

    Args:
        prices: of tokens, by names of models or patterns.
        most: how many turns.
        sums_of: what a turn in packed form has used.
    """

    def __init__(self, prices: Mapping[str, Price], most: int, sums_of: Callable[[bytes], UsageSums]) -> None:
        self._prices = prices
        self._most = most
        self._sums_of = sums_of
        self._found: list[tuple[float, int, At, UsageSums]] = []

    def add(self, turns: Sequence[bytes], kinds: Iterable[Kind], at: Sequence[At]) -> None:
        """Add turns: what each has used, in packed form, the same by its first part, and what names it."""
        above, equal = self._largest(list(kinds), self._prices_of)
        if sum(len(same) for _, same in equal) > self._most:
            larger, equal = self._largest(equal, lambda models: [_TOKENS] * len(models))
            above += larger
        # By their ids, since the hash of each turn's bytes takes ten times as long.
        wanted = {id(raw) for _, same in above + equal for raw in same}
        places = compress(range(len(turns)), map(wanted.__contains__, map(id, turns)))
        sums = ((at[place], self._sums_of(turns[place])) for place in places)
        found = [(used.money or 0.0, used.tokens, name, used) for name, used in sums]
        # The sort keeps the order of equal ones: those that were added first come first.
        self._found = sorted([*self._found, *found], key=itemgetter(0, 1), reverse=True)[: self._most]

    def found(self) -> Sequence[tuple[At, UsageSums]]:
        """The names of the turns that have cost most, those first, and what each has used."""
        return [(name, used) for *_, name, used in self._found]

    # A sort of ten thousand numbers takes less time than a heap of the hundred largest.
    def _largest(self, kinds: Sequence[Kind], weights_of: Callable[[Sequence[str]], Weights]) -> tuple[list[Kind], list[Kind]]:
        """The turns whose weighted sums are above the last that is wanted, and those whose sum is that."""
        likely = narrowed(kinds, lambda who: weights_of(models_of(who)), self._most)
        weighed = [(who, same, _weighted(who, same, weights_of(models_of(who)))) for who, same in likely]
        ordered = sorted(chain.from_iterable(values for *_, values in weighed), reverse=True)
        last = ordered[min(self._most, len(ordered)) - 1] if ordered else 0.0
        above: list[Kind] = []
        equal: list[Kind] = []
        for who, same, values in weighed:
            found = [*compress(zip(same, values, strict=True), map(last.__le__, values))]
            above.append((who, [raw for raw, value in found if value > last]))
            equal.append((who, [raw for raw, value in found if value == last]))
        return above, equal

    def _prices_of(self, models: Sequence[str]) -> Weights:
        prices = [price_of(model, self._prices) for model in models]
        return [weights(price) if price is not None else {} for price in prices]


def _weighted(who: bytes, same: Sequence[bytes], weights_of: Weights) -> Sequence[float]:
    """The sums of the numbers of each turn, times how much they count."""
    by_weight: dict[float, list[Iterable[int]]] = {}
    for weight, column in columns(who, same, weights_of):
        by_weight.setdefault(weight, []).append(column)
    products: list[Iterable[float]] = [map(mul, _added(each), repeat(weight)) for weight, each in by_weight.items()]
    return list(_added(products)) if products else [0.0] * len(same)


def _added(columns: Sequence[Iterable[float]]) -> Iterable[float]:
    """The sums of columns, line by line."""
    return reduce(lambda one, other: map(add, one, other), columns)


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
