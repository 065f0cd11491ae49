"""Whatever a tool returns has a form that can be stored, and JSON's values stay as they are."""

from __future__ import annotations

import dataclasses
import math
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import count
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.codec import decode, encode, flaw
from actors.messages.json_types import JsonValue
from actors.rules.checks.values import MOST_ITEMS, any_form, fast_form


class Colour(Enum):
    RED = "red"
    ODD = Path("/x")


class Place(NamedTuple):
    name: str
    path: Path


@dataclasses.dataclass
class Found:
    where: Path
    score: float


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    where: PurePosixPath
    ratio: float
    left: object = None


class Refuses:
    """Raises whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        return "Refuses()"


class RefusesItems:
    def __iter__(self) -> Iterator[int]:
        yield 1
        raise RuntimeError("no more")


class Array:
    """Like those of numpy."""

    def tolist(self) -> list[object]:
        return [1, [2.5, math.inf]]


def form(value: object) -> tuple[JsonValue, list[str]]:
    notes: list[str] = []
    known = fast_form(value)
    data, size = known or any_form(value, notes.append)
    assert decode(encode(data), Any) == data
    assert size == len(encode(data))
    assert flaw([data], is_finite=True) is None
    return data, notes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Path("/tmp/a b"), "/tmp/a b"),
        ({"where": Path("x"), "at": datetime(2026, 11, 29, tzinfo=UTC)}, {"where": "x", "at": "2026-11-29T00:00:00Z"}),
        (range(3), [0, 1, 2]),
        (deque([1, Path("x")]), [1, "x"]),
        (OrderedDict(a=range(1)), {"a": [0]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        (ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, a=[range(1)]), {"a": [[0]]}),
        ({"a": 1}.keys(), ["a"]),
        ({"a": Path("x")}.values(), ["x"]),
        ({"a": 1}.items(), [["a", 1]]),
        (map(str, [1, 2]), ["1", "2"]),
        ((each for each in (1, 2)), [1, 2]),
        (2**64, "18446744073709551616"),
        (2**64 - 1, 2**64 - 1),
        (-(2**63) - 1, "-9223372036854775809"),
        ([10**5000], [hex(10**5000)]),
        (ValueError("kaput"), "ValueError: kaput"),
        ({(1, "a"): 1, 2: 3, None: 4, Colour.RED: 5}, {"(1, 'a')": 1, "2": 3, "None": 4, "red": 5}),
        (Colour.ODD, "/x"),
        (Place("a", Path("x")), {"name": "a", "path": "x"}),
        (Found(Path("x"), 1.5), {"where": "x", "score": 1.5}),
        (Model(where=PurePosixPath("x"), ratio=0.5), {"where": "x", "ratio": 0.5, "left": None}),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud83d", "a\ufffd"),
        (bytearray(b"x"), "eA=="),
        ({"raw": bytearray(b"x"), "n": range(1)}, {"raw": b"x", "n": [0]}),
        ([b"x", range(1)], [b"x", [0]]),
        ([Decimal("1.50"), date(2026, 1, 2), UUID(int=1), timedelta(seconds=1), range(0)],
         ["1.50", "2026-01-02", "00000000-0000-0000-0000-000000000001", "PT1S", []]),
    ],
)  # fmt: skip
def test_values_become_what_one_would_write_in_their_place(value: object, expected: JsonValue) -> None:
    assert form(value) == (expected, [])


@pytest.mark.parametrize(
    ("value", "expected", "notes"),
    [
        ({"mean": math.nan, "n": [1.5, -math.inf]}, {"mean": None, "n": [1.5, None]}, ["nan has become null", "-inf has"]),
        (Found(Path("x"), math.nan), {"where": "x", "score": None}, ["nan"]),
        (Model(where=PurePosixPath("x"), ratio=math.inf), {"where": "x", "ratio": None, "left": None}, ["inf"]),
        (Array(), [1, [2.5, None]], ["inf"]),
        (Fraction(1, 3), "1/3", ["a Fraction has become a text"]),
        (2j, "2j", ["a complex has become a text"]),
        ([Refuses(), 1], [None, 1], ["Refuses", "a Refuses was left out: no text"]),
        ([RefusesItems(), 1], [None, 1], ["a RefusesItems was left out: no more"]),
    ],
)
def test_what_is_lost_is_noted(value: object, expected: JsonValue, notes: list[str]) -> None:
    data, noted = form(value)
    assert data == expected
    assert all(words in note for words, note in zip(notes, noted, strict=True)), noted


def test_of_an_iterator_without_an_end_there_is_a_beginning() -> None:
    data, notes = form(count())
    assert (data, notes) == (list(range(MOST_ITEMS)), ["of a count the first 10,000 items were taken"])


def test_what_contains_itself_and_what_is_nested_deeper_than_can_be_stored_is_cut() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert form(ring)[1] == ["what is nested deeper than 90 levels has become a text"]
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert len(form(deep)[1]) >= 1


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4),
    max_leaves=20,
)

_odd = st.recursive(
    _plain
    | st.floats()
    | st.integers()
    | st.binary()
    | st.text(st.characters())
    | st.sampled_from(
        [Refuses(), RefusesItems(), Array(), Path("x"), range(3), object(), Colour.ODD, Found(Path("x"), math.nan)]
    ),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.integers() | st.tuples(st.integers()) | st.text(), each, max_size=4)
        | st.lists(each, max_size=3).map(deque)
        | st.dictionaries(st.text(), each, max_size=3).map(MappingProxyType)
    ),
    max_leaves=20,
)


@given(_plain)
def test_json_values_stay_as_they_are(value: JsonValue) -> None:
    assert form(value) == (value, [])
    assert any_form(value, lambda note: pytest.fail(note))[0] == value


@given(_odd)
def test_every_value_has_a_form(value: object) -> None:
    data, _ = form(value)
    msgspec.json.encode(data)
