"""The sums of what many turns have used, made of the packed form in which each is stored.

Turns of the same agents and models have equal first parts, so the sums of thousands are made without decoding each: their second
parts are added up as whole numbers of many digits, which keeps the numbers in them apart as long as none of them overflows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import repeat
from operator import or_
from typing import Literal

from actors.rules.accounting.turn_usage import AMOUNTS, NUMBERS, Amounts, Key, Spent, add_to, first_part_of, spenders_of

_LANE_BITS = 8 * AMOUNTS.size
_LANE = (1 << _LANE_BITS) - 1

_LARGE = 2**44
"""Numbers from here on are added up one by one: 200 days in microseconds."""

_ADDED_AT_ONCE = 2**18
"""Spenders of turns whose sums cannot overflow: 63 bits less those of `_LARGE`, and one more for good measure."""


def sum_of(amounts: Collection[Amounts]) -> Amounts:
    """The sums of several."""
    return Amounts._make(map(sum, zip(*amounts, strict=True))) if amounts else Amounts()


def sum_of_packed(turns: Sequence[bytes]) -> Spent:
    """The sums of many turns in packed form."""
    return _sums(by_first_part(turns), spenders_of)


_LITTLE: Iterable[Literal["little"]] = repeat("little")
_number: Callable[[bytes, Literal["little"]], int] = int.from_bytes

Kind = tuple[bytes, Sequence[bytes]]
"""A first part, and the turns in packed form that have it."""


def models_of_kinds(kinds: Iterable[Kind]) -> Mapping[str, Amounts]:
    """The sums by models of what `by_first_part` finds."""
    return _sums(kinds, models_of)


def _sums(kinds: Iterable[Kind], keys: Callable[[bytes], Sequence[Key]]) -> Mapping[Key, Amounts]:
    sums: dict[Key, Amounts] = {}
    lanes: dict[Key, int] = {}
    added = 0
    for who, same in kinds:
        named = keys(who)
        bits = 8 * len(who)
        for part in _parts(same, len(named)):
            # The first part is the lowest digits of each, and is taken off the sum: that takes less time than to cut each.
            numbers = list(map(_number, part, _LITTLE))
            added += len(part) * len(named)
            if added > _ADDED_AT_ONCE:
                _unpack(sums, lanes)
                lanes, added = {}, len(part) * len(named)
            if reduce(or_, numbers) & _too_large(len(named), bits):
                for number in numbers:
                    single: dict[Key, int] = {}
                    _add_lanes(single, named, number >> bits)
                    _unpack(sums, single)
            else:
                _add_lanes(lanes, named, (sum(numbers) - len(part) * _number(who, "little")) >> bits)
    _unpack(sums, lanes)
    return sums


def _parts(same: Sequence[bytes], spenders: int) -> Sequence[Sequence[bytes]]:
    """Turns by so many as may be added up at once."""
    if len(same) * spenders <= _ADDED_AT_ONCE:
        return [same]
    at_once = max(1, _ADDED_AT_ONCE // spenders)
    return [same[start : start + at_once] for start in range(0, len(same), at_once)]


def _add_lanes(lanes: dict[Key, int], named: Sequence[Key], total: int) -> None:
    for key in named:
        lanes[key] = lanes.get(key, 0) + (total & _LANE)
        total >>= _LANE_BITS


def _unpack(sums: dict[Key, Amounts], lanes: Mapping[Key, int]) -> None:
    for key, lane in lanes.items():
        add_to(sums, key, Amounts._make(AMOUNTS.unpack(lane.to_bytes(AMOUNTS.size, "little"))))


def by_first_part(turns: Sequence[bytes]) -> Iterator[Kind]:
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


def models_of_turn(raw: bytes) -> Mapping[str, Amounts]:
    """The sums of one turn in packed form by models."""
    sums: dict[str, Amounts] = {}
    who = first_part_of(raw)
    for model, numbers in zip(models_of(who), AMOUNTS.iter_unpack(raw[len(who) :]), strict=True):
        add_to(sums, model, Amounts._make(numbers))
    return sums


@lru_cache(1_000)
def models_of(who: bytes) -> Sequence[str]:
    """The models of a first part, in the order in which the second part has their amounts."""
    return [model for _, model in spenders_of(who)]


@lru_cache(100)
def _too_large(spenders: int, bits: int) -> int:
    """The bits that are set in no second part whose numbers are small enough to be added up, after so many of the first part."""
    return int.from_bytes(struct.pack("<q", -_LARGE) * (NUMBERS * spenders), "little") << bits
