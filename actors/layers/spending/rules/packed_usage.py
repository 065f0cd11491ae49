"""The sums of what many turns have used, made of the packed form in which each is stored.

Turns of the same agents and models have equal first parts, so the sums of thousands are made without decoding each: the numbers
in their second parts are added up column by column.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from actors.rules.accounting.turn_usage import NUMBERS, Amounts, Key, Spent, add_to, first_part_of, spenders_of


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
