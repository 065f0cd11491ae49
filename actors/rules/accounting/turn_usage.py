"""What one turn has used: a fold of its events, and the packed form in which its sums are stored.

Rules of this file:

- An event of a model's response counts one model call, with its tokens and the tools that it calls, for its author and its model.
  An event of another kind counts what its author did without a model: the time of tools.
- Events of users count nothing: what an answer is to was counted with the call.
- Sums are whole numbers, so that they are the same in whatever order they are added up. Times are microseconds.
- What is stored of a turn says in its first part who has used something, and in its second how much.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from operator import add
from typing import NamedTuple, TypeVar

import msgspec

from actors.messages import typed
from actors.messages.event import USER, Usage

US = 1_000_000
"""Microseconds in a second."""

MOST = 10**15
"""More than one event can have used of anything."""

MOST_STORED = 2**63 - 1

_LENGTH = struct.Struct("<I")
NUMBERS = 7
AMOUNTS = struct.Struct(f"<{NUMBERS}q")


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


Key = TypeVar("Key", bound=Hashable)

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
        add_to(spent, (author, model or ""), amounts)


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
        numbers = [AMOUNTS.pack(*spent[spender]) for spender in spenders]
    except struct.error:
        numbers = [AMOUNTS.pack(*[min(number, MOST_STORED) for number in spent[spender]]) for spender in spenders]
    return b"".join((_first_part(spenders), *numbers))


@lru_cache(1_000)
def _first_part(spenders: tuple[Spender, ...]) -> bytes:
    who = msgspec.msgpack.encode(spenders)
    return _LENGTH.pack(len(who)) + who


def unpacked(raw: bytes) -> dict[Spender, Amounts]:
    """The sums of one turn in packed form."""
    who = first_part_of(raw)
    return dict(zip(spenders_of(who), map(Amounts._make, AMOUNTS.iter_unpack(raw[len(who) :])), strict=True))


def first_part_of(raw: bytes) -> bytes:
    """The first part of a turn in packed form."""
    return raw[: _LENGTH.size + int.from_bytes(raw[: _LENGTH.size], "little")]


@lru_cache(1_000)
def spenders_of(who: bytes) -> Sequence[Spender]:
    """The spenders of a first part, in the order in which the second part has their amounts."""
    return typed.decode(who[_LENGTH.size :], list[Spender])


def together(*spents: Spent) -> Spent:
    """The sums of several."""
    sums: dict[Spender, Amounts] = {}
    for spent in spents:
        for spender, amounts in spent.items():
            add_to(sums, spender, amounts)
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


def add_to(sums: dict[Key, Amounts], key: Key, amounts: Amounts) -> None:
    """Add amounts to one of the sums."""
    before = sums.get(key)
    sums[key] = amounts if before is None else before.plus(amounts)
