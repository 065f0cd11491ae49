"""Sums of turns as a report: by agent, model, user, day, version or turn, and with what it costs."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache, partial
from heapq import nlargest
from operator import itemgetter, mul
from struct import Struct
from typing import Generic, TypeVar

from actors.layers.spending.messages import UsageReport, UsageSums, UsedTurn
from actors.layers.spending.rules.budgets import cost, currency_of, price_of, weights
from actors.messages.costs import Price
from actors.rules.accounting import NUMBERS, US, Amounts, Key, Spent, add_to, first_part_of, spenders_of

At = TypeVar("At")
"""What names a turn."""

_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")

DAY_S = 86_400
_EPOCH = date(1970, 1, 1)


def day_of(begun_s: float) -> str:
    """The day of a time by UTC, such as "2026-11-24"."""
    return (_EPOCH + timedelta(days=begun_s // DAY_S)).isoformat()


def groups_of(by: str) -> str:
    """The word by which a report groups turns: "user", "day", "version" or "turn"; "" where they say the rest."""
    return by if by in ("user", "day", "version", "turn") else ""


class UsageCollector:
    """Adds up turns for a report.

    Args:
        by: what to list them by: "agent", "model", "user", "day", "version" or "turn"; "" for the sum of all.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, by: str, prices: Mapping[str, Price]) -> None:
        self._by = by
        self._prices = prices
        self._by_model: dict[str, dict[str, Amounts]] = {}
        self._price_of = cache(partial(price_of, prices=prices))

    def add(self, group: str, turns: Sequence[bytes]) -> None:
        """Add what turns of one group have used, each in packed form: see `groups_of`."""
        if self._by == "agent":
            for (agent, model), amounts in sum_of_packed(turns).items():
                self._add(agent, model, amounts)
            return
        for model, amounts in models_of_packed(turns).items():
            self._add(model if self._by == "model" else group, model, amounts)

    def sums(self, turn: bytes) -> UsageSums:
        """The sums of one turn, given in packed form."""
        return self._sums(models_of_packed([turn]))

    def _add(self, name: str, model: str, amounts: Amounts) -> None:
        models = self._by_model.setdefault(name, {})
        before = models.get(model)
        models[model] = amounts if before is None else before.plus(amounts)

    def _total(self) -> Mapping[str, Amounts]:
        by_model: dict[str, list[Amounts]] = {}
        for models in self._by_model.values():
            for model, amounts in models.items():
                by_model.setdefault(model, []).append(amounts)
        return {model: sum_of(found) for model, found in by_model.items()}

    def report(self, turns: Sequence[UsedTurn] = ()) -> UsageReport:
        """The report of all that was added so far, with turns that are listed."""
        total = self._total()
        has_groups = self._by not in ("", "turn")
        groups = {name: self._sums(self._by_model[name]) for name in sorted(self._by_model)} if has_groups else {}
        unpriced = [
            model
            for model, amounts in sorted(total.items())
            if amounts.input_tokens + amounts.output_tokens + amounts.reasoning_tokens and self._price_of(model) is None
        ]
        return UsageReport(
            total=self._sums(total),
            groups=groups,
            turns=list(turns),
            currency=currency_of(self._prices),
            unpriced=unpriced,
        )

    def _sums(self, models: Mapping[str, Amounts]) -> UsageSums:
        whole = sum_of(models.values())
        money: float | None = None
        for model, amounts in models.items():
            price = self._price_of(model) if amounts.llm_calls else None
            if price is not None:
                money = (money or 0.0) + cost(amounts, price)
        return UsageSums(
            llm_calls=whole.llm_calls,
            tool_calls=whole.tool_calls,
            input_tokens=whole.input_tokens,
            cached_tokens=whole.cached_tokens,
            output_tokens=whole.output_tokens,
            reasoning_tokens=whole.reasoning_tokens,
            seconds=whole.us / US,
            money=money,
        )


class CostlyTurns(Generic[At]):
    """Finds the turns that have cost most; of those that have cost the same, such as nothing, those with most tokens.

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
        self._numbers_of = cache(self._read_with)

    def add(self, turns: Sequence[bytes], at: Sequence[At]) -> None:
        """Add turns: what each has used, in packed form, and what names it."""
        # To add up each turn as sums takes ten times as long, and of ten thousand a hundred are wanted.
        largest = nlargest(self._most, range(len(turns)), key=lambda place: self._cost(turns[place]))
        sums = ((at[place], self._sums_of(turns[place])) for place in largest)
        found = [(used.money or 0.0, used.tokens, name, used) for name, used in sums]
        # The sort keeps the order of equal ones: those that were added first come first.
        self._found = sorted([*self._found, *found], key=itemgetter(0, 1), reverse=True)[: self._most]

    def found(self) -> Sequence[tuple[At, UsageSums]]:
        """The names of the turns that have cost most, those first, and what each has used."""
        return [(name, used) for *_, name, used in self._found]

    def _cost(self, turn: bytes) -> tuple[float, int]:
        """The money and the tokens of a turn."""
        who = first_part_of(turn)
        numbers, prices, tokens = self._numbers_of(who)
        found = numbers.unpack_from(turn, len(who))
        return sum(map(mul, found, prices)), sum(map(mul, found, tokens))

    def _read_with(self, who: bytes) -> tuple[Struct, Sequence[float], Sequence[int]]:
        """The form of the numbers behind a first part, and by how much each of them counts as money and as tokens."""
        prices = [price_of(model, self._prices) for model in models_of(who)]
        by_field = [weights(price) if price is not None else {} for price in prices]
        money = [each.get(field, 0.0) for each in by_field for field in Amounts._fields]
        tokens = [int(field in _TOKENS) for _ in by_field for field in Amounts._fields]
        return Struct(f"<{len(money)}q"), money, tokens


def sum_of(amounts: Collection[Amounts]) -> Amounts:
    """The sums of several."""
    return Amounts._make(map(sum, zip(*amounts, strict=True))) if amounts else Amounts()


def sum_of_packed(turns: Sequence[bytes]) -> Spent:
    """The sums of many turns in packed form."""
    return _sums(turns, spenders_of)


def models_of_packed(turns: Sequence[bytes]) -> Mapping[str, Amounts]:
    """The same by models."""
    return _sums(turns, models_of)


def _sums(turns: Sequence[bytes], keys: Callable[[bytes], Sequence[Key]]) -> Mapping[Key, Amounts]:
    sums: dict[Key, Amounts] = {}
    for who, same in by_first_part(turns):
        named = keys(who)
        numbers = array("q", b"".join([raw[len(who) :] for raw in same]))
        if sys.byteorder == "big":
            numbers.byteswap()
        width = NUMBERS * len(named)
        columns = [sum(numbers[at::width]) for at in range(width)]
        for place, key in enumerate(named):
            add_to(sums, key, Amounts._make(columns[place * NUMBERS : (place + 1) * NUMBERS]))
    return sums


def by_first_part(turns: Sequence[bytes]) -> Iterator[tuple[bytes, Sequence[bytes]]]:
    """Turns in packed form with equal first parts, and that part."""
    by_length: dict[int, list[bytes]] = {}
    for raw in turns:
        by_length.setdefault(len(raw), []).append(raw)
    for rest in by_length.values():
        # Of thousands of turns most have one of few first parts, and each length one: it is cut off none but the first of them.
        who = first_part_of(rest[0])
        same = [raw for raw in rest if raw.startswith(who)]
        yield who, same
        if len(same) < len(rest):
            others: dict[bytes, list[bytes]] = {}
            for raw in rest:
                if not raw.startswith(who):
                    others.setdefault(first_part_of(raw), []).append(raw)
            yield from others.items()


@lru_cache(1_000)
def models_of(who: bytes) -> Sequence[str]:
    """The models of a first part, in the order in which the second part has their amounts."""
    return [model for _, model in spenders_of(who)]
