"""How many model calls a turn may still make."""

from __future__ import annotations

from actors.runner.running_turn import UNLIMITED, CallAllowance


def test_calls_in_the_log_count_at_least_and_what_was_counted_stays() -> None:
    calls = CallAllowance(5)
    calls.count(2)
    calls.count_stored(4)
    assert (calls.used, calls.left) == (4, 1)
    calls.count_stored(3)
    assert (calls.used, calls.left) == (4, 1)
    assert CallAllowance(0).left == UNLIMITED


def test_calls_that_a_run_did_not_make_are_given_back_unless_the_log_may_have_them() -> None:
    calls = CallAllowance(5)
    calls.count(1)
    calls.end_run(3, counted=1, was_lost=False)
    assert calls.used == 3
    calls.count(1)
    calls.end_run(0, counted=1, was_lost=False)
    assert calls.used == 3
    calls.count(1)
    calls.end_run(0, counted=1, was_lost=True)
    assert calls.used == 4
