"""Counts of what has happened in a deployment, by agent, model, tool and outcome, and of how long it took."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

BOUNDS_S = tuple(0.01 * 2**exponent for exponent in range(14))
"""Bounds of the buckets of times, in seconds; a time that is equal belongs to the bucket."""

TURN, VERSION, MODEL_CALL, TOOL_CALL, SCHEDULE = "turn", "version", "model_call", "tool_call", "schedule"

LABELS = {
    TURN: ("agent", "outcome", "error_type"),
    VERSION: ("version", "outcome"),
    MODEL_CALL: ("agent", "model", "error_type"),
    TOOL_CALL: ("agent", "tool", "outcome"),
    SCHEDULE: ("outcome",),
}
"""What things of a kind differ in."""


class Tally(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What has happened, since an actor was started, of one kind and with the same labels.

    Attributes:
        kind: a key of LABELS.
        labels: their values, in that order; "" for none.
        count: how often.
        total_s: seconds that all of them took.
        buckets: how many took up to each of BOUNDS_S, and then how many took longer; () where times are not measured.
    """

    kind: str
    labels: tuple[str, ...]
    count: int
    total_s: float = 0.0
    buckets: tuple[int, ...] = ()


def sums(parts: Sequence[Sequence[Tally]]) -> list[Tally]:
    """The sums of the tallies of several actors."""
    found: dict[tuple[str, tuple[str, ...]], Tally] = {}
    for tally in (each for part in parts for each in part):
        place = (tally.kind, tally.labels)
        before = found.get(place)
        found[place] = tally if before is None else _sum(before, tally)
    return list(found.values())


def _sum(one: Tally, other: Tally) -> Tally:
    buckets = (
        tuple(map(int.__add__, one.buckets, other.buckets)) if one.buckets and other.buckets else one.buckets or other.buckets
    )
    return Tally(one.kind, one.labels, one.count + other.count, one.total_s + other.total_s, buckets)
