"""Times of schedules: what is asked for becomes a timing, whose due times make turns, the same in every process.

Rules of this file:

- Due times are whole seconds since the epoch. `every` counts from the schedule's creation, and does not drift with its turns.
- Cron is that of Debian. Where clocks go forward, a time of day that is left out is due right after the gap; where they go back,
  one that comes twice is due the first time. Minutes and hours that begin with `*` are due at each hour that passes.
- All times are found forwards from a moment, whatever was found before, so a process that begins elsewhere finds the same.
- A message that waits to be read by a turn is kept as a schedule that is due at once: so it begins a turn if none reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from math import floor
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from actors.errors import InvalidScheduleError
from actors.errors.hints import did_you_mean
from actors.layers.stores.schedule import MissedPolicy, Timing
from actors.messages.config import Limits, RunConfig
from actors.messages.json_types import JsonObject
from actors.messages.protocol.turns import ScheduledTime
from actors.rules.checks.ids import printable


def zone_of(name: str) -> tzinfo:
    """The time zone of a name. Raises InvalidScheduleError when this machine knows none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as error:
        known = available_timezones()
        if not known:
            why = "this machine has no time zones: pip install tzdata"
        else:
            why = f"it is no name of the IANA database, such as 'Europe/Berlin'.{did_you_mean(str(name), known)}"
        raise InvalidScheduleError(f"timezone {name!r}", why) from error


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


Every = timedelta | float
"""How often: a timedelta, or seconds."""

At = datetime | str | float
"""A moment: a datetime, a text as ISO 8601 has it, or seconds since the epoch."""

FIELDS = 5
"""Fields of a cron expression."""

DAY_S = 86_400

LATEST_S = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""No calendar of Python goes much further."""

LONGEST_S = 100 * 366 * DAY_S


def timing_of(cron: str | None, every: Every | None, at: At | None, timezone: str | None) -> Timing:
    """The timing of a schedule.

    Args:
        cron, every, at: exactly one of them.
        timezone: for `cron`, and for an `at` that names none; None: UTC.

    Raises:
        InvalidScheduleError: none of them is given, or several are, or one is wrong.
    """
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        why = f"it has {' and '.join(given)}" if given else "it has no time"
        raise InvalidScheduleError("a schedule", f"{why}: give one of cron=, every= and at=")
    name = "UTC" if timezone is None else timezone
    zone = zone_of(name)
    if cron is not None:
        return Timing(cron=_cron(cron), timezone=name)
    if every is not None:
        if timezone is not None:
            raise InvalidScheduleError(
                f"timezone {timezone!r}", "every= counts seconds, which are the same everywhere: leave it out"
            )
        return Timing(every_s=_whole_seconds(every))
    moment = at
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            why = "write it as '2026-11-30T08:00', or with an offset: '2026-11-30T08:00+01:00'"
            raise InvalidScheduleError(f"at {printable(at)!r}", why) from None
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).timestamp()
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not 0 < moment < LATEST_S:
        why = "it must be a datetime, a text as '2026-11-30T08:00', or seconds since the epoch, before the year 9999"
        raise InvalidScheduleError(f"at {printable(at)!r}", why)
    return Timing(at_s=math.ceil(moment), timezone=name)


def first_due_s(timing: Timing, now_s: float, limits: Limits) -> int:
    """The first due time of a new schedule, which has to keep within the limits of the deployment.

    Raises:
        InvalidScheduleError: it is never due, or too far ahead, or too often.
    """
    check_interval(timing, now_s, limits.min_schedule_interval_s, "min_schedule_interval_s")
    due_s = next_due_s(timing, now_s)
    if due_s is None:
        if timing.at_s:
            raise InvalidScheduleError(f"at {shown_time(timing.at_s)}", f"it has passed: it is {shown_time(now_s)} now")
        raise InvalidScheduleError(f"cron {timing.cron!r}", "it is never due: there is no such day")
    if due_s - now_s > limits.max_schedule_ahead_days * DAY_S:
        why = f"max_schedule_ahead_days allows at most {limits.max_schedule_ahead_days} days from now"
        raise InvalidScheduleError(f"a schedule that is due first at {shown_time(due_s)}", why)
    return due_s


def check_interval(timing: Timing, now_s: float, least_s: float, setting: str) -> None:
    """Check that a schedule is not due more often than it may be.

    Args:
        setting: what allows no less, for the error.

    Raises:
        InvalidScheduleError: it is.
    """
    interval_s = shortest_interval_s(timing, now_s)
    if interval_s is not None and interval_s < least_s:
        what = f"every {timing.every_s} s" if timing.every_s else f"cron {timing.cron!r}"
        why = f"its due times are {interval_s} s apart, and {setting} allows no less than {least_s:g} s"
        raise InvalidScheduleError(what, why)


def shown_time(moment_s: float) -> str:
    """A moment for people, in UTC."""
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _cron(cron: str) -> str:
    # Imported here: programs without schedules need it not.
    from cronsim import CronSim, CronSimError

    expected = "write five fields: minute, hour, day of the month, month, day of the week, such as '30 8 * * MON-FRI'"
    if not isinstance(cron, str):
        raise InvalidScheduleError(f"cron {printable(cron)!r}", expected)
    fields = cron.split()
    if len(fields) != FIELDS:
        raise InvalidScheduleError(f"cron {printable(cron)!r}", f"it has {len(fields)} fields: {expected}")
    try:
        CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidScheduleError(f"cron {printable(cron)!r}", f"{error}: {expected}") from None
    return " ".join(fields)


def _whole_seconds(every: Every) -> int:
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 1 <= seconds <= LONGEST_S or seconds != int(seconds):
        why = "it must be a timedelta, or a number, of whole seconds from 1 on, and at most a hundred years"
        raise InvalidScheduleError(f"every {printable(every)!r}", why)
    return int(seconds)


_TURN_ID = re.compile(r"s-[0-9a-f]{32}-\d{8}T\d{6}Z|(?:run|told|asks|sent|steer)-[0-9a-f]{16,32}(?:-[0-9a-f]{16})?")


def turn_id(time: ScheduledTime) -> str:
    """The invocation id of the turn: the schedule's own id, and the due time for people. A message has it as its id."""
    if time.is_message:
        return time.id
    return f"{time.id}-{datetime.fromtimestamp(time.due_s, UTC):%Y%m%dT%H%M%SZ}"


def is_turn_of_schedule(invocation_id: str) -> bool:
    """True for the id of a turn that a due time has made, or a message of an agent: no program waits for it."""
    return _TURN_ID.fullmatch(invocation_id) is not None


def turn_config(config: RunConfig, name: str, due_s: int | None = None) -> RunConfig:
    """The options of a turn of a schedule: its user's event says from which, and for when, unless it was run by hand."""
    mark: JsonObject = {"schedule": name}
    if due_s is not None:
        mark["due"] = datetime.fromtimestamp(due_s, UTC).isoformat().replace("+00:00", "Z")
    return msgspec.structs.replace(config, custom_metadata={**(config.custom_metadata or {}), **mark})
