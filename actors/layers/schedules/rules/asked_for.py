"""What a program or a tool asks for becomes a timing, or is refused with what would be right."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from actors.errors import InvalidScheduleError
from actors.layers.schedules.rules.due_times import next_due_s, shortest_interval_s
from actors.layers.schedules.rules.time_zones import zone_of
from actors.layers.stores.schedule import Timing
from actors.messages.limits import Limits
from actors.rules.checks.ids import printable

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
