"""What turns have used, and counts of what has happened.

Rules of what a turn has used, a fold of its events, which is stored in a packed form:

- An event of a model's response counts one model call, with its tokens and the tools that it calls, for its author and its model.
  An event of another kind counts what its author did without a model: the time of tools.
- Events of users count nothing: what an answer is to was counted with the call.
- Sums are whole numbers, so that they are the same in whatever order they are added up. Times are microseconds.
- What is stored of a turn says in its first part who has used something, and in its second how much.

Rules of the counts of turns, model calls, tools and schedules by agent and outcome, and of how long they took:

- What is counted is in the log, or on its way there: so it is counted once, whichever agents' processes are lost, and stays when
  an agent leaves its process. It begins anew with the Session actor.
- Versions of the tree stay apart as agents do: an update is judged by how its turns end, and how long they take. Where there are
  too many, the one that was seen first becomes part of OTHERS.
- A tree may have ten thousand agents, and code may raise any number of classes. Beyond MAX_SERIES of a kind the agent of a
  new one is OTHERS; beyond twice as many everything is that can be anything, and only outcomes stay apart.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from operator import add
from typing import NamedTuple, TypeVar

import msgspec

from actors.messages import codec
from actors.messages.event import USER, Usage
from actors.messages.protocol.runs import AnyOutcome, Cancelled, Failed, Finished, Transfer
from actors.messages.protocol.statistics import BOUNDS_S, LABELS, MODEL_CALL, SCHEDULE, TOOL_CALL, TURN, VERSION, Tally

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
    return codec.decode(who[_LENGTH.size :], list[Spender])


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


MAX_SERIES = 200
"""Different labels of a kind that stay apart."""

OTHERS = "(others)"

FAILED = "failed"

_MADE, _MISSED = "made", "missed"


class Tallies:
    """The counts of one Session actor."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[tuple[str, ...], _Series]] = {kind: {} for kind in LABELS}

    def note_turn(self, agent: str, outcome: AnyOutcome, took_s: float, version: str = "") -> None:
        """A turn has ended, or was paused.

        Args:
            agent: the agent that was selected for it. It counts where the outcome names none: the agent that the turn came to, or
                that failed.
            took_s: how long it ran, in seconds, since it began or went on after a pause.
            version: of the tree, by which it ran; "" where that is not known.
        """
        agent = outcome.agent or agent
        if isinstance(outcome, Finished | Transfer):
            state, error = "finished", ""
        elif isinstance(outcome, Failed):
            state, error = FAILED, outcome.error_code or "_OTHER"
        elif isinstance(outcome, Cancelled):
            state, error = "cancelled", "timeout" if outcome.timeout_s is not None else ""
        else:
            state, error = "paused", ""
        self._add(TURN, (agent, state, error), took_s)
        if version:
            self._add(VERSION, (version, state), took_s)

    def note_model_call(self, agent: str, model: str, error: str = "", took_s: float | None = None) -> None:
        """A model has answered, or its call has failed with an error of this class, or the model has told this code of one."""
        self._add(MODEL_CALL, (agent.lstrip("@"), model, error), took_s)

    def note_tool_call(self, agent: str, tool: str, outcome: str) -> None:
        """A call of a tool has ended: `ok`, `failed`, or `cancelled` with its turn."""
        self._add(TOOL_CALL, (agent.lstrip("@"), tool, outcome), None)

    def note_schedule(self, error: str, late_s: float) -> None:
        """A due time has been dealt with: it has made a turn, was passed over, or was refused.

        Args:
            error: why it has made no turn; "": it has made one.
            late_s: how long after the due time, in seconds.
        """
        self._add(SCHEDULE, (_MISSED if error else _MADE,), None if error else late_s)

    def all(self) -> Sequence[Tally]:
        """Every count."""
        return [
            Tally(kind, labels, each.count, each.total_s, tuple(each.buckets))
            for kind, series in self._kinds.items()
            for labels, each in series.items()
        ]

    def _add(self, kind: str, labels: tuple[str, ...], took_s: float | None) -> None:
        series = self._kinds[kind]
        found = series.get(labels)
        if found is None:
            while kind == VERSION and len(series) >= MAX_SERIES:
                _merge_first(series)
            labels = _narrowed(labels, LABELS[kind], len(series))
            found = series.setdefault(labels, _Series())
        found.add(took_s)


class _Series:
    __slots__ = ("buckets", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.buckets: list[int] = []

    def add(self, took_s: float | None) -> None:
        self.count += 1
        if took_s is not None:
            if not self.buckets:
                self.buckets = [0] * (len(BOUNDS_S) + 1)
            self.buckets[bisect_left(BOUNDS_S, took_s)] += 1
            # A clock that was set back has no part in the sum.
            self.total_s += took_s if took_s > 0 else 0.0

    def add_all(self, other: _Series) -> None:
        self.count += other.count
        self.total_s += other.total_s
        if other.buckets:
            self.buckets = list(map(add, self.buckets, other.buckets)) if self.buckets else list(other.buckets)


def _merge_first(series: dict[tuple[str, ...], _Series]) -> None:
    """Make what is counted of the version that was seen first part of OTHERS."""
    first = next(version for version, *_ in series if version != OTHERS)
    for labels in [each for each in series if each[0] == first]:
        series.setdefault((OTHERS, *labels[1:]), _Series()).add_all(series.pop(labels))


def _narrowed(labels: tuple[str, ...], names: tuple[str, ...], known: int) -> tuple[str, ...]:
    """The labels of a new series, where there are so many."""
    if known < MAX_SERIES:
        return labels
    kept = ("outcome",) if known >= 2 * MAX_SERIES else names[1:]
    return tuple(value if name in kept or not value else OTHERS for name, value in zip(names, labels, strict=True))
