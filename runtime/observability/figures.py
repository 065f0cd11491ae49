"""Figures of actors, and what Session actors have counted, as samples for systems that collect metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from actors.messages.protocol.statistics import (
    BOUNDS_S,
    LABELS,
    MODEL_CALL,
    SCHEDULE,
    TOOL_CALL,
    TURN,
    VERSION,
    Statistics,
    Tally,
)

GROWING = frozenset(
    {
        *("turns", "events", "partials", "commits", "polls"),
        *("invocations", "transfers", "activations", "passivations", "shared", "replaced", "lost"),
        *("granted", "retried", "retries_refused"),
        *("llm_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
        *("budget_warnings", "budget_refusals", "budget_questions", "budget_wrap_ups", "budget_other_models"),
        "budget_left_out",
    }
)
"""Figures that only grow, until their actor is started again; all others go up and down."""


class Figure(NamedTuple):
    """One figure now.

    Attributes:
        name: without the ending `_total` that those have which only grow.
        labels: what it is about, beside the app.
    """

    name: str
    labels: Mapping[str, str]
    value: int
    only_grows: bool


def of_counts(kind: str, counts: Mapping[str, int], labels: Mapping[str, str] | None = None) -> Iterator[Figure]:
    """The figures of actors of a kind: `session`, `runner` or `model`."""
    for name, value in counts.items():
        yield Figure(f"raygrove_{kind}_{name}", labels or {}, value, name in GROWING)


def of_agents(agents: Iterable[Statistics], processes: int) -> Iterator[Figure]:
    """Sums over the agents that live, since a tree may have thousands. They shrink when one leaves its process.

    Args:
        processes: in which the agents live.
    """
    counts: Counter[str] = Counter()
    living = 0
    for agent in agents:
        counts.update(agent.counts)
        living += 1
    yield Figure("raygrove_agents_live", {}, living, False)
    yield Figure("raygrove_agent_processes", {}, processes, False)
    for name, value in counts.items():
        yield Figure(f"raygrove_agents_{name}", {}, value, False)


def of_models(models: Mapping[str, Mapping[str, int]]) -> Iterator[Figure]:
    """The figures of the calls of limited models."""
    for model, calls in models.items():
        yield from of_counts("model", calls, {"model": model})


_COUNTERS = {
    TURN: "raygrove_turns_ended",
    VERSION: "raygrove_version_turns_ended",
    MODEL_CALL: "raygrove_model_calls",
    TOOL_CALL: "raygrove_tool_calls",
    SCHEDULE: "raygrove_schedule_times",
}

_HISTOGRAMS = {
    TURN: "raygrove_turn_duration_seconds",
    VERSION: "raygrove_version_turn_duration_seconds",
    MODEL_CALL: "raygrove_model_call_duration_seconds",
    SCHEDULE: "raygrove_schedule_lateness_seconds",
}

_BOUNDS = (*(f"{bound:.12g}" for bound in BOUNDS_S), "+Inf")


class Times(NamedTuple):
    """How long things with the same labels took.

    Attributes:
        name, labels: of the histogram; the app is not among them.
        up_to: how many took at most so many seconds, by the bounds of the buckets as texts, `+Inf` the last.
        total_s: of all, in seconds.
    """

    name: str
    labels: Mapping[str, str]
    up_to: Sequence[tuple[str, int]]
    total_s: float
    number: int


def counted(tallies: Iterable[Tally]) -> Iterator[Figure]:
    """The number of times that each thing has happened."""
    for tally in tallies:
        yield Figure(_COUNTERS[tally.kind], _labels(tally), tally.count, True)


def timed(tallies: Iterable[Tally]) -> Iterator[Times]:
    """The times that things took, where they are measured."""
    for tally in tallies:
        if tally.buckets:
            up_to = list(zip(_BOUNDS, accumulate(tally.buckets), strict=True))
            yield Times(_HISTOGRAMS[tally.kind], _labels(tally), up_to, tally.total_s, up_to[-1][1])


def _labels(tally: Tally) -> dict[str, str]:
    return dict(zip(LABELS[tally.kind], tally.labels, strict=True))
