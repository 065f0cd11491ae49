"""Which of the due times that have passed makes a turn now."""

from __future__ import annotations

from typing import NamedTuple

from actors.layers.schedules.rules.due_times import newest_due_times, next_due_s
from actors.layers.stores.schedule import MissedPolicy, Timing

LATE_S = 60
"""A due time is late up to so many seconds, and missed after that: no restart of an actor takes longer."""

MAX_MADE_UP = 100
"""Turns that a schedule makes up with `all`, the newest due times: after a week each minute would be ten thousand."""


class DueNow(NamedTuple):
    """What is to be done for a schedule.

    Attributes:
        turn_s: the due time that makes a turn now; None: none does.
        next_s: the due time after that, which may have passed as well; None: there is none any more.
    """

    turn_s: int | None
    next_s: int | None


def due_now(timing: Timing, missed: MissedPolicy, due_s: int, now_s: float) -> DueNow:
    """Decide about a schedule that is due.

    - `once`: the newest due time makes a turn, those before it none.
    - `all`: each makes one, in order, of the newest `MAX_MADE_UP`.
    - `skip`: as `once`, but not for a due time that was missed.

    Args:
        due_s: the first due time that has made no turn. It is not later than now.
    """
    if missed == "all":
        turn_s = newest_due_times(timing, due_s, now_s, MAX_MADE_UP)[0]
    else:
        turn_s = newest_due_times(timing, due_s, now_s, 1)[-1]
    next_s = next_due_s(timing, turn_s)
    if missed == "skip" and now_s - turn_s > LATE_S:
        return DueNow(None, next_s)
    return DueNow(turn_s, next_s)
