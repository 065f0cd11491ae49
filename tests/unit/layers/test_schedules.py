"""When schedules are due, also where clocks change, which of the due times that have passed makes a turn, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidScheduleError
from actors.layers.schedules.rules import (
    LATE_S,
    MAX_MADE_UP,
    check_interval,
    due_now,
    due_times,
    first_due_s,
    newest_due_times,
    next_due_s,
    shortest_interval_s,
    timing_of,
)
from actors.layers.stores.schedule import MISSED, MissedPolicy, Timing
from actors.messages.config import Limits

DAY_S = 86_400


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def times(timing: Timing, after: str, count: int = 3) -> list[str]:
    return [f"{datetime.fromtimestamp(due_s, UTC):%m-%d %H:%M}" for due_s in islice(due_times(timing, at(after)), count)]


def berlin(cron: str) -> Timing:
    return Timing(cron=cron, timezone="Europe/Berlin")


def test_an_interval_counts_from_the_creation_and_does_not_drift() -> None:
    timing = Timing(every_s=90, start_s=1_000)
    assert list(islice(due_times(timing, 1_000), 3)) == [1_090, 1_180, 1_270]
    assert next_due_s(timing, 1_179.5) == 1_180
    assert next_due_s(timing, 1_180) == 1_270
    assert next_due_s(timing, 10) == 1_090


def test_a_single_time_is_due_once() -> None:
    timing = Timing(at_s=500)
    assert next_due_s(timing, 499.9) == 500
    assert next_due_s(timing, 500) is None
    assert shortest_interval_s(timing, 0) is None


def test_cron_goes_by_the_clocks_of_its_time_zone() -> None:
    assert times(berlin("30 8 * * *"), "2026-01-10T12:00") == ["01-11 07:30", "01-12 07:30", "01-13 07:30"]
    assert times(berlin("30 8 * * *"), "2026-03-28T00:00") == ["03-28 07:30", "03-29 06:30", "03-30 06:30"]
    assert times(Timing(cron="30 8 * * MON-FRI"), "2026-01-09T09:00") == ["01-12 08:30", "01-13 08:30", "01-14 08:30"]


def test_a_time_of_day_that_is_left_out_in_spring_is_due_right_after_the_gap() -> None:
    # On 2026-03-29 the clocks of Berlin go from 2:00 to 3:00, at 1:00 UTC.
    assert times(berlin("30 2 * * *"), "2026-03-28T00:00") == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_time_of_day_that_comes_twice_in_autumn_is_due_the_first_time() -> None:
    # On 2026-10-25 the clocks of Berlin go from 3:00 to 2:00, at 1:00 UTC.
    expected = ["10-25 00:30", "10-26 01:30", "10-27 01:30"]
    assert times(berlin("30 2 * * *"), "2026-10-24T12:00") == expected
    # Also for a process that begins within the hour that comes again.
    assert times(berlin("30 2 * * *"), "2026-10-25T01:10") == [*expected[1:], "10-28 01:30"]
    assert times(berlin("45 2 * * *"), "2026-10-25T01:10", 1) == ["10-26 01:45"]


def test_each_hour_passes_once_where_clocks_change() -> None:
    assert times(berlin("0 * * * *"), "2026-03-28T23:30", 4) == ["03-29 00:00", "03-29 01:00", "03-29 02:00", "03-29 03:00"]
    assert times(berlin("0 * * * *"), "2026-10-24T23:30", 4) == ["10-25 00:00", "10-25 01:00", "10-25 02:00", "10-25 03:00"]


@given(
    cron=st.sampled_from(["30 2 * * *", "0 * * * *", "*/15 * * * *", "0 0 1 * *", "15 1,2,3 * * SUN", "59 23 31 12 *"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    after_s=st.integers(at("2026-03-01T00:00"), at("2027-12-01T00:00")),
)
def test_due_times_are_the_same_wherever_a_process_begins(cron: str, zone: str, after_s: int) -> None:
    timing = Timing(cron=cron, timezone=zone)
    found = list(islice(due_times(timing, after_s), 6))
    assert all(earlier < later for earlier, later in pairwise([after_s, *found]))
    for earlier, later in pairwise(found):
        assert next_due_s(timing, earlier) == later
        assert next_due_s(timing, later - 1) == later
    assert newest_due_times(timing, found[0], found[-1], 3) == found[-3:]
    assert newest_due_times(timing, found[0], found[-1] + 1, 100) == found


def test_the_newest_due_times_after_years_are_found_without_a_pass_over_all() -> None:
    minutely = Timing(cron="* * * * *")
    now_s = at("2036-01-01T00:00") + 30
    assert newest_due_times(minutely, at("2026-01-01T00:00"), now_s, 2) == [now_s - 90, now_s - 30]
    often = Timing(every_s=1, start_s=1_000)
    assert newest_due_times(often, 1_001, 10**9, 2) == [10**9 - 1, 10**9]
    rare = Timing(cron="0 0 29 2 *")
    assert newest_due_times(rare, at("2028-02-29T00:00"), at("2043-01-01T00:00"), 2) == [
        at("2036-02-29T00:00"),
        at("2040-02-29T00:00"),
    ]
    assert newest_due_times(rare, at("2028-02-29T00:00"), at("2028-02-29T00:00"), 5) == [at("2028-02-29T00:00")]


def test_the_shortest_interval_of_uneven_times() -> None:
    assert shortest_interval_s(Timing(cron="0,5 3 * * *"), 0) == 300
    assert shortest_interval_s(Timing(every_s=77, start_s=5), 0) == 77
    assert shortest_interval_s(Timing(cron="0 0 1 1 *"), 0) == 365 * DAY_S


HOURLY = Timing(every_s=3_600, start_s=0)


@pytest.mark.parametrize("missed", MISSED)
def test_a_due_time_in_time_makes_its_turn(missed: MissedPolicy) -> None:
    assert due_now(HOURLY, missed, 3_600, 3_600) == (3_600, 7_200)
    assert due_now(HOURLY, missed, 3_600, 3_600 + LATE_S) == (3_600, 7_200)


def test_of_those_that_were_missed_the_newest_makes_a_turn() -> None:
    assert due_now(HOURLY, "once", 3_600, 5 * 3_600 + 1_000) == (5 * 3_600, 6 * 3_600)


def test_all_that_were_missed_make_a_turn_one_after_the_other() -> None:
    due_s: int | None = 3_600
    made = []
    while due_s is not None and due_s <= 5 * 3_600 + 1_000:
        turn_s, due_s = due_now(HOURLY, "all", due_s, 5 * 3_600 + 1_000)
        made.append(turn_s)
    assert made == [3_600 * number for number in range(1, 6)]


def test_those_that_are_made_up_are_bounded() -> None:
    now_s = 1_000 * 3_600
    turn_s, next_s = due_now(HOURLY, "all", 3_600, now_s)
    assert (turn_s, next_s) == ((1_001 - MAX_MADE_UP) * 3_600, (1_002 - MAX_MADE_UP) * 3_600)


def test_what_was_missed_makes_no_turn_when_it_is_skipped() -> None:
    assert due_now(HOURLY, "skip", 3_600, 5 * 3_600 + LATE_S + 1) == (None, 6 * 3_600)
    # The newest one is only late.
    assert due_now(HOURLY, "skip", 3_600, 5 * 3_600 + LATE_S) == (5 * 3_600, 6 * 3_600)


def test_a_single_time_that_has_passed() -> None:
    once = Timing(at_s=500)
    assert due_now(once, "once", 500, 10**6) == (500, None)
    assert due_now(once, "all", 500, 10**6) == (500, None)
    assert due_now(once, "skip", 500, 10**6) == (None, None)


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
