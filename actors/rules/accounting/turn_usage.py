"""What one turn has used: a fold of its events, and the packed form in which its sums are stored.

Rules of this file:

- An event of a model's response counts one model call, with its tokens and the tools that it calls, for its author and its model.
  An event of another kind counts what its author did without a model: the time of tools.
- Events of users count nothing: what an answer is to was counted with the call.
- Sums are whole numbers, so that they are the same in whatever order they are added up. Times are microseconds.
- What is stored of a turn says in its first part who has used something, and in its second how much. Turns of the same agents and
  models have equal first parts, so the sums of thousands are made without decoding each: their second parts are added up as whole
  numbers of many digits, which keeps the numbers in them apart as long as none of them overflows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import repeat
from operator import add, or_
from typing import Literal, NamedTuple, TypeVar

import msgspec

from actors.messages.event import USER, Usage

US = 1_000_000
"""Microseconds in a second."""

MOST = 10**15
"""More than one event can have used of anything."""

MOST_STORED = 2**63 - 1

_LENGTH = struct.Struct("<I")
_NUMBERS = 7
_AMOUNTS = struct.Struct(f"<{_NUMBERS}q")
_LANE_BITS = 8 * _AMOUNTS.size
_LANE = (1 << _LANE_BITS) - 1

_LARGE = 2**44
"""Numbers from here on are added up one by one: 200 days in microseconds."""

_ADDED_AT_ONCE = 2**18
"""Spenders of turns whose sums cannot overflow: 63 bits less those of `_LARGE`, and one more for good measure."""


class Amounts(NamedTuple):
    """How much was used: see UsageSums; the time in microseconds."""

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    us: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """The sums of both."""
        return Amounts._make(map(add, self, other))


def sum_of(amounts: Collection[Amounts]) -> Amounts:
    """The sums of several."""
    return Amounts._make(map(sum, zip(*amounts, strict=True))) if amounts else Amounts()


Spender = tuple[str, str]
"""An agent and the model that it called; "" for what it did without one."""

Spent = Mapping[Spender, Amounts]
"""How much of a turn, or of several, each of these has used."""


NOTHING = Amounts()


def add_used(spent: dict[Spender, Amounts], author: str, model: str | None, amounts: Amounts) -> None:
    """Add what an event says to the sums of its turn. It must not be added twice.

    Args:
        author: of the event.
        model: the model whose response it is; None for other events.
    """
    if amounts is not NOTHING and author != USER:
        _add(spent, (author, model or ""), amounts)


def amounts_of(model: str | None, usage: Usage | None, tool_calls: int, duration_s: float | None) -> Amounts:
    """The amounts that one event of an agent counts.

    Args:
        model: the model whose response it is; None for other events.
        usage: the response's tokens; None where they are not known.
        tool_calls: how many calls it makes.
        duration_s: how long what it tells took; None where that was not measured.
    """
    us = round(duration_s * US) if duration_s is not None and 0 < duration_s < MOST / US else 0
    if usage is None:
        if model is None and not tool_calls and not us:
            return NOTHING
        return Amounts(0 if model is None else 1, tool_calls, 0, 0, 0, 0, us)
    told: tuple[int, ...] = (
        usage.prompt_token_count or 0,
        usage.tool_use_prompt_token_count or 0,
        usage.candidates_token_count or 0,
        usage.thoughts_token_count or 0,
        usage.cached_content_token_count or 0,
        usage.total_token_count or 0,
    )
    if min(told) < 0 or max(told) > MOST:
        # Services, and code in their place, may say anything.
        told = tuple([min(max(number, 0), MOST) for number in told])
    prompt, of_tools, output, reasoning, cached, total = told
    given = prompt + of_tools
    if not (given or output or reasoning):
        # Of the kinds of tokens, that of the answer costs most.
        output = total
    return Amounts(1, tool_calls, given, min(cached, given), output, reasoning, us)


def packed(spent: Spent) -> bytes:
    """The sums of one turn as they are stored; never empty."""
    spenders = tuple(sorted(spent))
    try:
        numbers = [_AMOUNTS.pack(*spent[spender]) for spender in spenders]
    except struct.error:
        numbers = [_AMOUNTS.pack(*[min(number, MOST_STORED) for number in spent[spender]]) for spender in spenders]
    return b"".join((_first_part(spenders), *numbers))


@lru_cache(1_000)
def _first_part(spenders: tuple[Spender, ...]) -> bytes:
    who = msgspec.msgpack.encode(spenders)
    return _LENGTH.pack(len(who)) + who


def sum_of_packed(turns: Sequence[bytes]) -> Spent:
    """The sums of many turns in packed form."""
    return _sums(turns, _spenders)


def models_of_packed(turns: Sequence[bytes]) -> Mapping[str, Amounts]:
    """The sums of many turns in packed form by models alone, in less time."""
    return _sums(turns, models_of)


Key = TypeVar("Key", bound=Hashable)

_LITTLE: Iterable[Literal["little"]] = repeat("little")
_number: Callable[[bytes, Literal["little"]], int] = int.from_bytes

Kind = tuple[bytes, Sequence[bytes]]
"""A first part, and the turns in packed form that have it."""


def _sums(turns: Sequence[bytes], keys: Callable[[bytes], Sequence[Key]]) -> Mapping[Key, Amounts]:
    return _sums_of_kinds(by_first_part(turns), keys)


def models_of_kinds(kinds: Iterable[Kind]) -> Mapping[str, Amounts]:
    """The sums by models of what `by_first_part` finds."""
    return _sums_of_kinds(kinds, models_of)


def _sums_of_kinds(kinds: Iterable[Kind], keys: Callable[[bytes], Sequence[Key]]) -> Mapping[Key, Amounts]:
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
        _add(sums, key, Amounts._make(_AMOUNTS.unpack(lane.to_bytes(_AMOUNTS.size, "little"))))


def by_first_part(turns: Sequence[bytes]) -> Iterator[Kind]:
    """Turns in packed form with equal first parts, and that part."""
    by_length: dict[int, list[bytes]] = {}
    for raw in turns:
        by_length.setdefault(len(raw), []).append(raw)
    for rest in by_length.values():
        # Of thousands of turns most have one of few first parts, and each length one: it is cut off none but the first of them.
        who = _first_part_of(rest[0])
        same = [raw for raw in rest if raw.startswith(who)]
        yield who, same
        if len(same) < len(rest):
            others: dict[bytes, list[bytes]] = {}
            for raw in rest:
                if not raw.startswith(who):
                    others.setdefault(_first_part_of(raw), []).append(raw)
            yield from others.items()


def _first_part_of(raw: bytes) -> bytes:
    return raw[: _LENGTH.size + int.from_bytes(raw[: _LENGTH.size], "little")]


def models_of_turn(raw: bytes) -> Mapping[str, Amounts]:
    """The sums of one turn in packed form by models."""
    sums: dict[str, Amounts] = {}
    who = _first_part_of(raw)
    for model, numbers in zip(models_of(who), _AMOUNTS.iter_unpack(raw[len(who) :]), strict=True):
        _add(sums, model, Amounts._make(numbers))
    return sums


@lru_cache(1_000)
def _spenders(who: bytes) -> Sequence[Spender]:
    return msgspec.msgpack.decode(who[_LENGTH.size :], type=list[Spender])


@lru_cache(1_000)
def models_of(who: bytes) -> Sequence[str]:
    """The models of a first part, in the order in which the second part has their amounts."""
    return [model for _, model in _spenders(who)]


@lru_cache(100)
def _too_large(spenders: int, bits: int) -> int:
    """The bits that are set in no second part whose numbers are small enough to be added up, after so many of the first part."""
    return int.from_bytes(struct.pack("<q", -_LARGE) * (_NUMBERS * spenders), "little") << bits


def together(*spents: Spent) -> Spent:
    """The sums of several."""
    sums: dict[Spender, Amounts] = {}
    for spent in spents:
        for spender, amounts in spent.items():
            _add(sums, spender, amounts)
    return sums


def minus(spent: Spent, before: Spent) -> Spent:
    """The difference of sums, of which the second ones are not larger."""
    found = {}
    for spender, amounts in spent.items():
        less = before.get(spender, NOTHING)
        if less != amounts:
            found[spender] = Amounts(*map(int.__sub__, amounts, less))
    return found


def negated(spent: Spent) -> Spent:
    """The sums with which these add up to nothing."""
    return {spender: Amounts(*map(int.__neg__, amounts)) for spender, amounts in spent.items()}


def _add(sums: dict[Key, Amounts], key: Key, amounts: Amounts) -> None:
    before = sums.get(key)
    sums[key] = amounts if before is None else before.plus(amounts)
