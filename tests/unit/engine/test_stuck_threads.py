"""When threads that do not come back wear a process out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.process.watched_threads import is_worn_out


@pytest.mark.parametrize(
    ("threads", "left", "stuck", "expected"),
    [
        (64, 0, 0, False),
        (64, 31, 31, False),
        (64, 32, 32, True),
        (64, 127, 0, False),
        (64, 128, 0, True),
        (1, 1, 0, False),
        (1, 1, 1, True),
        (1, 2, 0, True),
    ],
)
def test_half_of_the_threads_stuck_or_twice_as_many_left_behind_wear_a_process_out(
    threads: int, left: int, stuck: int, expected: bool
) -> None:
    assert is_worn_out(threads, left=left, stuck=stuck) is expected


@given(st.integers(1, 100), st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_process_gets_no_better_by_losing_more_threads(threads: int, left: int, stuck: int, more: int) -> None:
    stuck = min(stuck, left)
    if is_worn_out(threads, left=left, stuck=stuck):
        assert is_worn_out(threads, left=left + more, stuck=stuck)
        assert is_worn_out(threads, left=left + more, stuck=stuck + more)
    assert not is_worn_out(threads, left=0, stuck=0)
