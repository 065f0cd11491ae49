"""The due times of a schedule, and which of them make turns: a function of its timing alone, the same in every process.

Rules of this file:

- Due times are whole seconds since the epoch. `every` counts from the schedule's creation, and does not drift with its turns.
- Cron is that of Debian. Where clocks go forward, a time of day that is left out is due right after the gap; where they go back,
  one that comes twice is due the first time. Minutes and hours that begin with `*` are due at each hour that passes.
- All times are found forwards from a moment, whatever was found before, so a process that begins elsewhere finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, pairwise
from math import floor
from typing import NamedTuple

from actors.layers.stores.schedule import MissedPolicy, Timing

LOOKS_BACK_S = (3_600, 86_400, 7 * 86_400, 32 * 86_400, 366 * 86_400, 5 * 366 * 86_400, 50 * 366 * 86_400)
"""How far is looked back for the newest due time, one after the other: about as many due times are found in each."""

LATE_S = 60
"""A due time is late up to so many seconds, and missed after that: no restart of an actor takes longer."""

MAX_MADE_UP = 100
"""Turns that a schedule makes up with `all`, the newest due times: after a week each minute would be ten thousand."""


def due_times(timing: Timing, after_s: float) -> Iterator[int]:
    """The due times after a moment, in order, without end if the schedule repeats."""
    if timing.at_s:
        if timing.at_s > after_s:
            yield timing.at_s
        return
    if timing.every_s:
        passed = max(0, floor((after_s - timing.start_s) / timing.every_s))
        due_s = timing.start_s + (passed + 1) * timing.every_s
        while True:
            yield due_s
            due_s += timing.every_s
    yield from _cron_times(timing, after_s)


def next_due_s(timing: Timing, after_s: float) -> int | None:
    """The first due time after a moment; None: there is none any more."""
    return next(due_times(timing, after_s), None)


def newest_due_times(timing: Timing, first_s: int, now_s: float, most: int) -> list[int]:
    """The newest due times up to now, in order, of those from `first_s` on, which is one of them. At most `most`."""
    for back_s in LOOKS_BACK_S:
        after_s = max(first_s - 1, now_s - back_s)
        found = _until(timing, after_s, now_s, most)
        if len(found) == most or after_s < first_s:
            return found or [first_s]
    return [first_s]


def _until(timing: Timing, after_s: float, now_s: float, most: int) -> list[int]:
    found: list[int] = []
    if timing.every_s:
        # These can be counted.
        after_s = max(after_s, now_s - most * timing.every_s)
    for due_s in due_times(timing, after_s):
        if due_s > now_s:
            break
        found.append(due_s)
    return found[-most:]


def shortest_interval_s(timing: Timing, after_s: float, looked_at: int = 25) -> int | None:
    """The shortest time between two of the next due times, in seconds; None for a single one."""
    if timing.every_s:
        return timing.every_s
    found = list(islice(due_times(timing, after_s), looked_at))
    return min((later - earlier for earlier, later in pairwise(found)), default=None)


def _cron_times(timing: Timing, after_s: float) -> Iterator[int]:
    # Imported here: programs without schedules need it not.
    from cronsim import CronSim

    from actors.layers.schedules.rules.time_zones import zone_of

    zone = zone_of(timing.timezone)
    for found in CronSim(timing.cron, datetime.fromtimestamp(floor(after_s), UTC).astimezone(zone)):
        due_s = round(found.timestamp())
        # In an hour that comes twice, the clock's times of the second one were due in the first.
        if due_s > after_s:
            yield due_s


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
