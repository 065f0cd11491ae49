"""Objects that are alike: what is found of one of them holds for the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.layers.trees.fingerprints import Fingerprints, likeness


class Plain:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Other(Plain):
    pass


class Slotted(Plain):
    __slots__ = ("hidden",)


class Pickled(Plain):
    def __getstate__(self) -> dict[str, Any]:
        return {}


def made(number: int = 1) -> Plain:
    return Plain(name="a", heat=0.5, limits=[number, 2], extra={"top": None}, is_on=True, raw=b"x", pair=(1, "b"))


def test_objects_of_one_class_with_equal_data_are_alike() -> None:
    assert likeness(made()) == likeness(made()) is not None
    assert likeness(Plain()) == likeness(Plain()) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made(), made(3)),
        (Plain(a=1), Plain(a=True)),
        (Plain(a=1), Plain(a=1.0)),
        (Plain(a=0.0), Plain(a=-0.0)),
        (Plain(a="1"), Plain(a=b"1")),
        (Plain(a=[]), Plain(a=())),
        (Plain(a=[1]), Plain(a=[True])),
        (Plain(a={"b": 1}), Plain(a={"b": 2})),
        (Plain(a=1), Plain(b=1)),
        (Plain(a=1, b=2), Plain(b=2, a=1)),
        (Plain(a=1), Other(a=1)),
    ],
)
def test_others_are_not_alike(one: Plain, other: Plain) -> None:
    assert likeness(one) != likeness(other)


SHARED = [1]


@pytest.mark.parametrize(
    "given",
    [
        Plain(a=[[1]]),
        Plain(a=[bytearray(b"x")]),
        Plain(a=Plain()),
        Plain(a=print),
        Plain(a={1}),
        Plain(a=SHARED),
        Slotted(a=1),
        Pickled(a=1),
        Plain,
        print,
        [1],
        "text",
        None,
    ],
)
def test_what_may_be_more_than_its_data_is_like_nothing_else(given: object) -> None:
    assert likeness(given) is None


simple = st.sampled_from([None, True, 1, 1.0, 0.0, -0.0, "", "1", b"1"])
data = (
    simple
    | st.lists(simple, max_size=2)
    | st.tuples(simple)
    | st.dictionaries(st.sampled_from(["a", 1, True]), simple, max_size=2)
)
attributes = st.dictionaries(st.sampled_from(["a", "b"]), data, max_size=2)


@given(one=attributes, other=attributes)
def test_what_is_alike_has_one_fingerprint_and_one_text(one: dict[str, object], other: dict[str, object]) -> None:
    # Copies, to which nothing else refers.
    left, right = Plain(**eval(repr(one))), Plain(**eval(repr(other)))
    is_alike = likeness(left) == likeness(right)
    assert is_alike == (repr(list(vars(left).items())) == repr(list(vars(right).items())))
    if is_alike:
        assert Fingerprints().of(left) == Fingerprints().of(right)
