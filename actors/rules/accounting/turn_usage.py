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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.messages.event import USER, Usage

US = 1_000_000
"""Microseconds in a second."""

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


class UsedEvent(NamedTuple):
    """What an event says of what was used.

    Attributes:
        model: the model whose response it is; None for other events.
        usage: the response's tokens; None where they are not known.
        tool_calls: how many calls it makes.
        duration_s: how long what it tells took; None where that was not measured.
    """

    author: str
    model: str | None
    usage: Usage | None
    tool_calls: int
    duration_s: float | None


class TurnUsage:
    """Adds up what the events of one turn have used.

    Attributes:
        spent: the sums so far.
    """

    def __init__(self, spent: Spent | None = None) -> None:
        self.spent: dict[Spender, Amounts] = dict(spent or {})

    def note(self, event: UsedEvent) -> None:
        """Add an event of the turn, which must not be added twice."""
        if event.author == USER:
            return
        amounts = amounts_of(event)
        if any(amounts):
            _add(self.spent, (event.author, event.model or ""), amounts)

    def packed_with(self, events: Iterable[UsedEvent]) -> bytes:
        """The packed form of the sums with more events, which are not noted."""
        whole = TurnUsage(self.spent)
        for event in events:
            whole.note(event)
        return packed(whole.spent)


def amounts_of(event: UsedEvent) -> Amounts:
    """The amounts that one event of an agent counts."""
    us = round(max(event.duration_s or 0.0, 0.0) * US)
    usage = event.usage
    if usage is None:
        return Amounts(llm_calls=event.model is not None, tool_calls=event.tool_calls, us=us)
    given = max(usage.prompt_token_count or 0, 0) + max(usage.tool_use_prompt_token_count or 0, 0)
    output, reasoning = max(usage.candidates_token_count or 0, 0), max(usage.thoughts_token_count or 0, 0)
    if not (given or output or reasoning):
        # Of the kinds of tokens, that of the answer costs most.
        output = max(usage.total_token_count or 0, 0)
    return Amounts(
        llm_calls=1,
        tool_calls=event.tool_calls,
        input_tokens=given,
        cached_tokens=min(max(usage.cached_content_token_count or 0, 0), given),
        output_tokens=output,
        reasoning_tokens=reasoning,
        us=us,
    )


def packed(spent: Spent) -> bytes:
    """The sums of one turn as they are stored; never empty."""
    spenders = sorted(spent)
    who = msgspec.msgpack.encode(spenders)
    numbers = [number for spender in spenders for number in spent[spender]]
    return _LENGTH.pack(len(who)) + who + struct.pack(f"<{len(numbers)}q", *numbers)


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


def _add(sums: dict[Spender, Amounts], spender: Spender, amounts: Amounts) -> None:
    before = sums.get(spender)
    sums[spender] = amounts if before is None else before.plus(amounts)
