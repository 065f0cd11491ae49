"""What several processes have made stands in the order of its times, and that of each in its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.observability.logs.times import by_time

MADE = st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 100)), max_size=30)


def ordered(made: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return list(by_time(made, lambda each: each[1], lambda each: each[0]))


def test_a_process_whose_clock_was_set_back_keeps_its_order() -> None:
    made = [("a", 10.0), ("a", 5.0), ("a", 11.0), ("b", 7.0), ("b", 10.5)]
    assert ordered(made) == [("b", 7.0), ("a", 10.0), ("a", 5.0), ("b", 10.5), ("a", 11.0)]


@given(MADE)
def test_nothing_is_lost_and_no_process_is_jumbled(made: list[tuple[str, float]]) -> None:
    found = ordered(made)
    assert sorted(found) == sorted(made)
    for name in "abc":
        assert [each for each in found if each[0] == name] == [each for each in made if each[0] == name]


@given(MADE)
def test_by_clocks_that_go_forward_it_is_the_order_of_the_times(made: list[tuple[str, float]]) -> None:
    made.sort(key=lambda each: each[1])
    assert ordered(made) == made
