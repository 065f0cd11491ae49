"""The turns that have cost most, of many.

Rules of this file:

- Turns are compared column by column: one number of all turns with equal first parts at a time. To add up each turn by itself
  takes ten times as long, and of ten thousand a report lists a hundred. Bounds of all leave few to compare: see `narrowed`.
- What counts is money, and tokens where that is the same, as it is for turns of models without a price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, compress, repeat
from operator import add, itemgetter, mul
from typing import Generic, TypeVar

from actors.messages.operating.usage import Price, UsageSums
from actors.rules.accounting.bounds import Weights, columns, narrowed
from actors.rules.accounting.prices import price_of, weights
from actors.rules.accounting.turn_usage import Kind, models_of

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
