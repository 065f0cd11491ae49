"""How caches of a node share its memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.process.node_caches import cache_share

MAX_BYTES = 1_000

weights = st.lists(st.integers(0, 2 * MAX_BYTES), min_size=1, max_size=12)


def shares(taken: list[int]) -> list[int]:
    """What each may take."""
    return [cache_share(MAX_BYTES, taken[:number] + taken[number + 1 :]) for number in range(len(taken))]


def test_a_cache_gets_what_the_others_leave_and_at_least_an_even_share() -> None:
    assert cache_share(MAX_BYTES, []) == MAX_BYTES
    assert cache_share(MAX_BYTES, [0, 0, 0]) == MAX_BYTES
    assert cache_share(MAX_BYTES, [100, 200]) == 700
    # The large one has to give way: it has more than an even share.
    assert cache_share(MAX_BYTES, [900, 100]) == 450
    assert cache_share(MAX_BYTES, [900, 900, 900]) == 250


@given(weights)
def test_none_has_to_take_less_than_an_even_share(taken: list[int]) -> None:
    assert min(shares(taken)) >= MAX_BYTES // len(taken)


@given(weights)
def test_where_none_takes_more_than_it_may_all_take_no_more_than_there_is(taken: list[int]) -> None:
    if all(weight <= share for weight, share in zip(taken, shares(taken), strict=True)):
        assert sum(taken) <= MAX_BYTES
    else:
        assert max(taken) > MAX_BYTES // len(taken)


@given(weights, st.data())
def test_caches_that_look_one_after_the_other_end_within_their_shares(wanted: list[int], data: st.DataObject) -> None:
    taken = [0] * len(wanted)
    for number in data.draw(st.lists(st.integers(0, len(wanted) - 1), max_size=30)) + [*range(len(wanted))] * 2:
        # Each grows to what it wants, as far as it may.
        taken[number] = min(wanted[number], shares(taken)[number])
    assert sum(taken) <= MAX_BYTES
