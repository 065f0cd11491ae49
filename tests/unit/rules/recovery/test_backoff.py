"""How long to wait before the next attempt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.recovery.backoff import Backoff

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
