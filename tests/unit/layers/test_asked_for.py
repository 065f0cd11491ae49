"""What may be asked for, and what an error says of the rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actors.errors import InvalidScheduleError
from actors.layers.schedules.rules import check_interval, first_due_s, timing_of
from actors.layers.stores.schedule import Timing
from actors.messages.config import Limits

NOW_S = datetime(2026, 11, 24, 8, tzinfo=UTC).timestamp()
LIMITS = Limits(min_schedule_interval_s=60, max_schedule_ahead_days=30)


def timing(**given: Any) -> Timing:
    return timing_of(given.get("cron"), given.get("every"), given.get("at"), given.get("timezone"))


def test_the_three_ways() -> None:
    assert timing(cron=" 30  8 * * mon-fri", timezone="Europe/Berlin") == Timing(
        cron="30 8 * * mon-fri", timezone="Europe/Berlin"
    )
    assert timing(every=timedelta(hours=1)) == timing(every=3_600) == Timing(every_s=3_600)
    assert timing(at=NOW_S + 0.5) == Timing(at_s=int(NOW_S) + 1)
    assert timing(at=datetime(2026, 11, 24, 8, tzinfo=UTC)) == timing(at="2026-11-24T08:00") == Timing(at_s=int(NOW_S))


def test_a_moment_without_an_offset_is_of_the_time_zone() -> None:
    assert timing(at="2026-11-24T09:00", timezone="Europe/Berlin").at_s == NOW_S
    assert timing(at=datetime(2026, 11, 24, 9), timezone="Europe/Berlin").at_s == NOW_S
    assert timing(at="2026-11-24T09:00+01:00", timezone="Asia/Tokyo").at_s == NOW_S


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "it has no time: give one of cron=, every= and at="),
        ({"cron": "* * * * *", "every": 60}, "it has cron and every: give one"),
        ({"cron": "* * * *"}, "it has 4 fields: write five fields"),
        ({"cron": "0 * * * * *"}, "it has 6 fields: write five fields"),
        ({"cron": "61 * * * *"}, "Bad minute: write five fields"),
        ({"cron": 5}, "cron 'int 5' cannot be used"),
        ({"cron": "0 8 * * *", "timezone": "Europe/Berln"}, r"timezone 'Europe/Berln'.*Did you mean 'Europe/Berlin'\?"),
        ({"cron": "0 8 * * *", "timezone": "../etc/passwd"}, "it is no name of the IANA database"),
        ({"cron": "0 8 * * *", "timezone": ""}, "it is no name of the IANA database"),
        ({"every": 0.5}, "whole seconds from 1 on"),
        ({"every": 1.5}, "whole seconds from 1 on"),
        ({"every": -5}, "whole seconds from 1 on"),
        ({"every": True}, "whole seconds from 1 on"),
        ({"every": float("inf")}, "whole seconds from 1 on"),
        ({"every": 60, "timezone": "UTC"}, "every= counts seconds"),
        ({"at": "tomorrow"}, "write it as '2026-11-30T08:00'"),
        ({"at": float("nan")}, "it must be a datetime"),
        ({"at": [1]}, "it must be a datetime"),
        ({"at": 1e12}, "before the year 9999"),
        ({"every": 1e12}, "at most a hundred years"),
        ({"every": timedelta.max}, "at most a hundred years"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidScheduleError, match=message):
        timing(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"at": NOW_S - 1}, "at 2026-11-24 07:59:59 UTC cannot be used: it has passed: it is 2026-11-24 08:00:00 UTC now"),
        ({"at": NOW_S}, "it has passed"),
        ({"at": NOW_S + 31 * 86_400}, "max_schedule_ahead_days allows at most 30 days"),
        ({"every": 59}, "every 59 s cannot be used: its due times are 59 s apart, and min_schedule_interval_s allows no less"),
        ({"cron": "0 0 30 2 *"}, "cron '0 0 30 2 .'"),
    ],
)
def test_what_is_beyond_the_limits_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidScheduleError, match=message):
        first_due_s(timing(**given), NOW_S, LIMITS)


def test_what_is_within_the_limits_has_a_first_due_time() -> None:
    assert first_due_s(timing(at=NOW_S + 1), NOW_S, LIMITS) == NOW_S + 1
    assert first_due_s(timing(cron="* * * * *"), NOW_S, LIMITS) == NOW_S + 60


def test_cron_is_measured_by_its_shortest_interval() -> None:
    check_interval(timing(cron="0 3 * * *"), NOW_S, 3_600, "min_interval_s")
    with pytest.raises(InvalidScheduleError, match="60 s apart, and min_interval_s allows no less than 3600 s"):
        check_interval(timing(cron="0,1 3 * * *"), NOW_S, 3_600, "min_interval_s")
