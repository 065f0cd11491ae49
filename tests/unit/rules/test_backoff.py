"""How long a store that fails is waited for, and anything else before the next attempt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.backoff import LONGEST_PAUSE_S, Backoff, StoreOutage, after_failure, after_success, pause_s

TIMEOUT_S = 30.0


def failure(outage: StoreOutage | None, now_s: float, *, asked_s: float | None = None, writing: bool = False) -> StoreOutage:
    asked_s = now_s if asked_s is None else asked_s
    return after_failure(outage, asked_s=asked_s, now_s=now_s, writing=writing, timeout_s=TIMEOUT_S)


def test_an_outage_begins_when_the_request_was_sent_that_failed() -> None:
    assert failure(None, 12.0, asked_s=10.0) == StoreOutage(10.0, 12.0, False)


def test_who_comes_in_the_middle_waits_for_the_rest_of_it() -> None:
    outage = failure(failure(None, 0.0), 29.5)
    assert outage.began_s == 0.0
    assert pause_s(outage, now_s=29.5, timeout_s=TIMEOUT_S) == 0.5


def test_who_comes_when_its_time_is_over_does_not_wait() -> None:
    outage = failure(None, 0.0)
    for now_s in (30.0, 45.0, 70.0):
        outage = failure(outage, now_s)
        assert pause_s(outage, now_s=now_s, timeout_s=TIMEOUT_S) is None


def test_a_failure_long_after_the_last_one_is_another_outage() -> None:
    assert failure(failure(None, 0.0), 32.0).began_s == 32.0
    assert failure(failure(None, 0.0), 31.0).began_s == 0.0


def test_any_answer_ends_an_outage_of_reading_but_only_a_write_one_of_writing() -> None:
    for writing in (False, True):
        assert after_success(failure(None, 0.0), writing=writing) is None
        assert after_success(None, writing=writing) is None
    locked = failure(None, 0.0, writing=True)
    assert after_success(locked, writing=False) == locked
    assert after_success(locked, writing=True) is None
    assert failure(failure(None, 0.0), 1.0, writing=True).writing
    assert failure(locked, 1.0, writing=False).writing


@given(st.floats(0.001, 1000))
def test_whoever_tries_again_as_told_stops_within_the_time_and_not_before(timeout_s: float) -> None:
    outage, now_s, tries = None, 0.0, 0
    while True:
        outage = after_failure(outage, asked_s=now_s, now_s=now_s, writing=False, timeout_s=timeout_s)
        pause = pause_s(outage, now_s=now_s, timeout_s=timeout_s)
        if pause is None:
            break
        assert 0 < pause <= LONGEST_PAUSE_S
        now_s += pause
        tries += 1
    assert abs(now_s - timeout_s) < 1e-6
    assert tries <= 12 + timeout_s / LONGEST_PAUSE_S


seconds = st.floats(0, 1_000)
backoffs = st.builds(Backoff, seconds, seconds)
chances = st.floats(0, 1)


@given(backoffs, st.integers(1, 5_000))
def test_each_wait_is_twice_the_one_before_or_the_longest(backoff: Backoff, failed: int) -> None:
    wait_s, next_s = backoff.after_attempts(failed), backoff.after_attempts(failed + 1)
    assert 0 <= wait_s <= next_s <= backoff.longest_s
    assert next_s in (wait_s * 2, backoff.longest_s) or failed > 64
    assert backoff.after_attempts(1) == min(backoff.first_s, backoff.longest_s)


@given(backoffs, st.integers(1, 5_000), chances, chances)
def test_chance_shortens_a_wait_to_half_of_it_at_most(backoff: Backoff, failed: int, one: float, other: float) -> None:
    whole_s = backoff.after_attempts(failed)
    assert whole_s / 2 <= backoff.after_attempts(failed, one) <= whole_s
    assert backoff.after_attempts(failed, max(one, other)) <= backoff.after_attempts(failed, min(one, other))
    assert backoff.after_attempts(failed, 1.0) == whole_s / 2


@given(backoffs, seconds, seconds)
def test_a_wait_grows_with_the_time_that_attempts_have_failed(backoff: Backoff, elapsed_s: float, more_s: float) -> None:
    wait_s = backoff.after_time(elapsed_s)
    assert min(backoff.first_s, backoff.longest_s) <= wait_s <= backoff.longest_s
    assert wait_s <= backoff.after_time(elapsed_s + more_s)
    assert wait_s in (backoff.first_s, elapsed_s / 2, backoff.longest_s)


def test_waits_of_a_model_call_and_of_a_store() -> None:
    model = Backoff(1.0, 60.0)
    assert [model.after_attempts(failed) for failed in (1, 2, 3, 6, 7, 5_000)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    assert model.after_attempts(3, 0.5) == 3.0
    store = Backoff(0.02, 1.0)
    assert [store.after_time(elapsed_s) for elapsed_s in (0.0, 0.04, 0.5, 2.0, 9.0)] == [0.02, 0.02, 0.25, 1.0, 1.0]
