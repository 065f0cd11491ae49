"""Sentences name the first of many, and say how many others there are."""

from __future__ import annotations

import pytest

from actors.errors.listing import some_of


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
