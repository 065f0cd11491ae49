"""Names in sentences of errors: the first of many, and the nearest valid one."""

from __future__ import annotations

from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors.hints import MAX_COMPARED, did_you_mean, some_of


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (list("abcde"), "a, b and 3 more"),
    ],
)
def test_the_first_are_named_and_the_others_counted(names: list[str], said: str) -> None:
    assert some_of(names, 2) == said


names = st.lists(st.text("abcde_1", min_size=1, max_size=8), max_size=40)


@given(st.text("abcde_1", max_size=8), names)
def test_of_few_names_it_is_the_nearest(name: str, valid: list[str]) -> None:
    nearest = get_close_matches(name, valid, n=1)
    assert did_you_mean(name, valid) == (f" Did you mean {nearest[0]!r}?" if nearest else "")


@given(st.integers(0, 4_999), st.data())
def test_of_thousands_it_is_one_that_differs_in_no_more_than_was_mistyped(number: int, data: st.DataObject) -> None:
    valid = [f"clerk_of_department_{each}" for each in range(5_000)]
    meant = valid[number]
    wrong = data.draw(st.integers(0, len("clerk_of_department_") - 1))
    typed = meant[:wrong] + meant[wrong + 1 :]
    assert did_you_mean(typed, valid) == f" Did you mean {meant!r}?"


def test_of_thousands_none_is_named_when_none_is_near() -> None:
    valid = [f"clerk_{each}" for each in range(10 * MAX_COMPARED)]
    for name in ("", "z", "an entirely different thing", "x" * 10_000):
        assert did_you_mean(name, valid) == ""
