"""Time zones by their names in the IANA database."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from actors.errors import InvalidScheduleError
from actors.errors.hints import did_you_mean


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
