"""Whatever a tool returns has a form that can be stored, values of state are checked, and the largest results give way."""

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

from actors.errors import NotEncodableError
from actors.messages.codec import decode, encode, flaw
from actors.messages.config import Limits
from actors.messages.json_types import JsonValue
from actors.rules.checks.state import check
from actors.rules.checks.values import ENVELOPE, MOST_ITEMS, any_form, check_value, fast_form, results_to_drop, stored_delta


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


@given(st.lists(st.integers(0, 2_000), max_size=12), st.integers(0, 4_000))
def test_the_largest_answers_give_way_and_no_more_than_have_to(sizes: list[int], room: int) -> None:
    out = results_to_drop(sizes, Limits.model_construct(max_event_bytes=ENVELOPE + room))
    kept = [size for index, size in enumerate(sizes) if index not in out]
    assert sum(kept) <= room or not kept
    if out:
        smallest = min(sizes[index] for index in out)
        assert all(size <= smallest for size in kept)
        assert sum(kept) + smallest > room


def nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def test_the_way_to_a_value_is_named() -> None:
    with pytest.raises(NotEncodableError, match=r"a set .*: state\['k'\]\[1\]\['a'\]\[0\] would come back as a list"):
        check_value("k", [0, {"b": 1, "a": [{1}]}])


def test_what_holds_itself_twice_is_looked_at_once() -> None:
    inside: list[Any] = []
    inside += [inside, inside, 1]
    check_value("k", inside)


def test_the_same_value_may_stand_at_several_places() -> None:
    same = {"a": [1]}
    assert stored_delta({"k": [same, same]}) == {"k": [same, same]}
    with pytest.raises(NotEncodableError, match=r"state\['k'\]\[1\]\['b'\]"):
        check_value("k", [same, {"b": {1}}])


class Exiting:
    """Ends the program that looks at it."""

    def __getattr__(self, name: str) -> None:
        raise SystemExit(name)


def test_a_value_that_raises_when_it_is_looked_at_is_refused() -> None:
    with pytest.raises(NotEncodableError, match="a Exiting cannot be sent or stored"):
        check_value("k", Exiting())


# Python itself goes some hundred levels deep, from 3.12 on some thousand, and from 3.14 on it writes more of them than it reads.
@pytest.mark.parametrize("depth", [101, 1_000, 20_000, 50_000, 100_000])
def test_what_is_nested_too_deep_is_left_to_the_check_of_the_whole_event(depth: int) -> None:
    check_value("k", nested(depth, {1}))
    with pytest.raises(NotEncodableError, match="nested deeper than 100 levels"):
        check(stored_delta({"k": nested(depth, 1)}))
