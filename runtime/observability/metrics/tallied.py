"""What Session actors have counted, by agent, model, tool and outcome, as samples for systems that collect metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from actors.messages.tally import BOUNDS_S, LABELS, MODEL_CALL, SCHEDULE, TOOL_CALL, TURN, VERSION, Tally
from runtime.observability.metrics.figures import Figure

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
