"""Of many turns few have to be compared, and none of the largest is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.layers.spending.rules import costly_turns
from actors.layers.spending.rules.packed_usage import by_first_part
from actors.rules.accounting.turn_usage import Amounts, Spent, packed

COUNTS = st.integers(0, 9)
TURNS = st.lists(
    st.dictionaries(st.sampled_from([("a", "m"), ("b", "m")]), st.builds(Amounts, *[COUNTS] * 7), min_size=1), min_size=2
)
FIELDS = st.sampled_from(Amounts._fields)
WEIGHTS = st.dictionaries(FIELDS, st.sampled_from([-0.5, 0.0, 1.0, 2.5]), min_size=1)


def narrowed(turns: list[Spent], weights: dict[str, float], most: int) -> tuple[list[bytes], list[bytes]]:
    """The turns that are left; and those that must be, for none but `most` - 1 others are larger."""

    def of(spent: Spent) -> float:
        return sum(float(getattr(amounts, field)) * weight for amounts in spent.values() for field, weight in weights.items())

    last = sorted(map(of, turns), reverse=True)[min(most, len(turns)) - 1]
    kinds = list(by_first_part([packed(each) for each in turns]))
    spenders = {who: len(next(each for each in turns if packed(each).startswith(who))) for who, _ in kinds}
    found = costly_turns.narrowed(kinds, lambda who: [weights] * spenders[who], most)
    return [raw for _, same in found for raw in same], [packed(each) for each in turns if of(each) >= last]


@given(TURNS, WEIGHTS, st.integers(1, 5))
def test_none_of_the_largest_is_left_out(turns: list[Spent], weights: dict[str, float], most: int) -> None:
    # Weights are cut to two or three bits, so that what is cut off matters.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costly_turns, "_SUM_BITS", 37)
        found, wanted = narrowed(turns, weights, most)
    assert set(wanted) <= set(found)


@pytest.mark.parametrize(("largest", "left"), [(10**6, 10), (2**31 - 1, 10), (2**31, 1_000), (2**62, 1_000)])
def test_few_are_left_of_many_unless_a_number_is_too_large_for_it(largest: int, left: int) -> None:
    turns: list[Spent] = [{("a", "m"): Amounts(input_tokens=largest * number // 999, us=7)} for number in range(1_000)]
    found, wanted = narrowed(turns, {"input_tokens": 3.0, "cached_tokens": -1.0}, 10)
    assert (len(found), len(wanted)) == (left, 10)
