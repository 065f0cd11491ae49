"""What one turn has used: a fold of its events, and the packed form in which its sums are stored.

Rules of this file:

- An event of a model's response counts one model call, with its tokens and the tools that it calls, for its author and its model.
  An event of another kind counts what its author did without a model: the time of tools.
- Events of users count nothing: what an answer is to was counted with the call.
- Sums are whole numbers, so that they are the same in whatever order they are added up. Times are microseconds.
- What is stored of a turn says in its first part who has used something, and in its second how much. Turns of the same agents and
  models have equal first parts, so the sums of thousands are made without decoding each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from actors.messages.event import USER, Usage

US = 1_000_000
"""Microseconds in a second."""

MOST = 10**15
"""More than one event can have used of anything."""

MOST_STORED = 2**63 - 1

_LENGTH = struct.Struct("<I")
_NUMBERS = 7
_FREQUENT = 4


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
        return Amounts(*map(int.__add__, self, other))


Spender = tuple[str, str]
"""An agent and the model that it called; "" for what it did without one."""

Spent = Mapping[Spender, Amounts]
"""How much of a turn, or of several, each of these has used."""


NOTHING = Amounts()


class TurnUsage:
    """Adds up what the events of one turn have used.

    Attributes:
        spent: the sums so far.
    """

    def __init__(self, spent: Spent | None = None) -> None:
        self.spent: dict[Spender, Amounts] = dict(spent or {})

    def note(self, author: str, model: str | None, amounts: Amounts) -> None:
        """Add what an event of the turn says, which must not be added twice.

        Args:
            author: of the event.
            model: the model whose response it is; None for other events.
        """
        if amounts is not NOTHING and author != USER:
            _add(self.spent, (author, model or ""), amounts)


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
    given = _count(usage.prompt_token_count) + _count(usage.tool_use_prompt_token_count)
    output, reasoning = _count(usage.candidates_token_count), _count(usage.thoughts_token_count)
    if not (given or output or reasoning):
        # Of the kinds of tokens, that of the answer costs most.
        output = _count(usage.total_token_count)
    cached = min(_count(usage.cached_content_token_count), given)
    return Amounts(1, tool_calls, given, cached, output, reasoning, us)


def _count(told: int | None) -> int:
    """A number of tokens as far as it can be one: services, and code in their place, may say anything."""
    return 0 if told is None or told < 0 else min(told, MOST)


def packed(spent: Spent) -> bytes:
    """The sums of one turn as they are stored; never empty."""
    spenders = tuple(sorted(spent))
    numbers = [min(number, MOST_STORED) for spender in spenders for number in spent[spender]]
    return _first_part(spenders) + struct.pack(f"<{len(numbers)}q", *numbers)


@lru_cache(1_000)
def _first_part(spenders: tuple[Spender, ...]) -> bytes:
    who = msgspec.msgpack.encode(spenders)
    return _LENGTH.pack(len(who)) + who


def sum_of_packed(turns: Sequence[bytes]) -> Spent:
    """The sums of many turns in packed form."""
    sums: dict[Spender, Amounts] = {}
    for who, numbers in _by_first_part(turns):
        _add_all(sums, who, b"".join(numbers))
    return sums


def _by_first_part(turns: Sequence[bytes]) -> Iterator[tuple[bytes, Sequence[bytes]]]:
    """The second parts of turns with equal first parts. Of a user's thousands of turns most have one of very few."""
    for _ in range(_FREQUENT):
        if not turns:
            return
        who = turns[0][: _end(turns[0])]
        end = len(who)
        yield who, [raw[end:] for raw in turns if raw.startswith(who)]
        turns = [raw for raw in turns if not raw.startswith(who)]
    rest: dict[bytes, list[bytes]] = {}
    for raw in turns:
        end = _end(raw)
        rest.setdefault(raw[:end], []).append(raw[end:])
    yield from rest.items()


def _end(raw: bytes) -> int:
    """Where the first part of a packed turn ends."""
    return _LENGTH.size + int.from_bytes(raw[: _LENGTH.size], "little")


def _add_all(sums: dict[Spender, Amounts], who: bytes, joined: bytes) -> None:
    numbers = struct.unpack(f"<{len(joined) // 8}q", joined)
    spenders = msgspec.msgpack.decode(who[_LENGTH.size :], type=list[Spender])
    width = _NUMBERS * len(spenders)
    totals = [sum(numbers[column::width]) for column in range(width)]
    for index, spender in enumerate(spenders):
        _add(sums, spender, Amounts(*totals[index * _NUMBERS : (index + 1) * _NUMBERS]))


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


def _add(sums: dict[Spender, Amounts], spender: Spender, amounts: Amounts) -> None:
    before = sums.get(spender)
    sums[spender] = amounts if before is None else before.plus(amounts)
