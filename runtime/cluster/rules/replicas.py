"""How many replicas an agent has whose number of them goes by load, and which of them serves a session.

- There are as many as the runs under way need, between the placement's `replicas` and `max_replicas`.
- The number rises at once. It falls only when fewer were enough all the time for as long as an idle agent keeps its process, so
  that a load that comes and goes starts no processes.
- A session stays with its replica as long as the same ones serve. With one more, or one fewer, only sessions of that one move.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Scale(NamedTuple):
    """How many replicas an agent is to have, and when so many were needed for the last time."""

    replicas: int
    needed_s: float


class ScaleLimits(NamedTuple):
    """Between which numbers an agent's replicas are, how many runs one is for, and for how long they stay without need."""

    least: int
    most: int
    runs_per_replica: int
    idle_timeout_s: float


def scaled(scale: Scale, limits: ScaleLimits, *, runs: int, now_s: float) -> Scale:
    """The scale from now on.

    Args:
        scale: until now.
        runs: that all replicas have under way.
    """
    needed = min(max(-(-runs // limits.runs_per_replica), limits.least), limits.most)
    if needed < scale.replicas and now_s - scale.needed_s < limits.idle_timeout_s:
        return scale
    return Scale(needed, now_s)


def serving(scale: Scale, limits: ScaleLimits, living: Iterable[int]) -> tuple[int, ...]:
    """The numbers of the replicas that serve sessions: those that always do, and of the others those that live by now."""
    return tuple(sorted({*range(limits.least), *(number for number in living if number < scale.replicas)}))
