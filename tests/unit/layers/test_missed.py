"""Which of the due times that have passed makes a turn."""

from __future__ import annotations

import pytest

from actors.layers.schedules.rules.missed import LATE_S, MAX_MADE_UP, due_now
from actors.layers.stores.schedule import MISSED, MissedPolicy, Timing

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
