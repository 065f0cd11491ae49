"""A lazy list does what a list of the converted elements does."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.drafts import LazyList


def lazy(numbers: list[int]) -> LazyList:
    """Of numbers, which become texts."""
    return LazyList(numbers, int, str)


def changed_by(change: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """What a change returns, or the error that it raises, and the list after it."""

    def changed(elements: list[Any]) -> Any:
        try:
            result = change(elements)
        except (IndexError, ValueError) as error:
            result = type(error)
        return result, list(elements)

    return changed


def delete(elements: list[Any], place: Any) -> None:
    del elements[place]


def put(elements: list[Any], place: Any, value: Any) -> None:
    elements[place] = value


PLACES = st.integers(-6, 6)
SLICES = st.slices(6)
TEXTS = st.sampled_from("0123x")

CHANGES: st.SearchStrategy[Callable[[list[Any]], Any]] = st.one_of(
    PLACES.map(lambda at: lambda each: each[at]),
    SLICES.map(lambda at: lambda each: each[at]),
    st.tuples(PLACES, TEXTS).map(lambda put_at: lambda each: put(each, *put_at)),
    st.tuples(SLICES, st.lists(TEXTS)).map(lambda put_at: lambda each: put(each, *put_at)),
    PLACES.map(lambda at: lambda each: delete(each, at)),
    SLICES.map(lambda at: lambda each: delete(each, at)),
    PLACES.map(lambda at: lambda each: each.pop(at)),
    TEXTS.map(lambda text: lambda each: each.append(text)),
    TEXTS.map(lambda text: lambda each: each.remove(text)),
    st.tuples(PLACES, TEXTS).map(lambda put_at: lambda each: each.insert(*put_at)),
    st.lists(TEXTS).map(lambda texts: lambda each: each.extend(texts)),
    st.lists(TEXTS).map(lambda texts: lambda each: each.__iadd__(texts)),
    st.just(lambda each: each.extend(each)),
    st.just(lambda each: put(each, slice(0, 0), each)),
    st.just(lambda each: each.__imul__(2)),
    st.just(lambda each: each.clear()),
    st.just(lambda each: each.reverse()),
    st.just(lambda each: each.sort()),
    st.just(lambda each: each.sort(key=lambda text: -ord(text), reverse=True)),
)


@given(st.lists(st.integers(0, 3)), st.lists(CHANGES, max_size=8))
def test_it_is_changed_as_a_list_is(numbers: list[int], changes: list[Callable[[list[Any]], Any]]) -> None:
    ours, expected = lazy(numbers), [str(number) for number in numbers]
    for change in changes:
        assert changed_by(change)(copy.copy(ours)) == changed_by(change)(list(expected))
        # Of the list itself, without looking at all of it.
        result, wanted = _result(change, ours), _result(change, expected)
        assert (result is ours) == (wanted is expected)
        assert result is ours or result == wanted
        assert ours.restored(lambda text: ord(text) - ord("0")) == [ord(text) - ord("0") for text in expected]
    assert list(ours) == expected


def _result(change: Callable[[list[Any]], Any], elements: list[Any]) -> Any:
    try:
        return change(elements)
    except (IndexError, ValueError) as error:
        return type(error)


READS: list[Callable[[Any], Any]] = [
    list,
    tuple,
    set,
    sorted,
    repr,
    len,
    bool,
    any,
    json.dumps,
    copy.copy,
    copy.deepcopy,
    lambda each: pickle.loads(pickle.dumps(each)),
    lambda each: each.copy(),
    lambda each: each[:],
    lambda each: each[::-2],
    lambda each: list(reversed(each)),
    lambda each: [*each, *each],
    lambda each: operator.add(each, ["x"]),
    lambda each: operator.add(["x"], each),
    lambda each: each + each,
    lambda each: each * 2,
    lambda each: 2 * each,
    lambda each: list(zip(each, each, strict=True)),
    lambda each: "1" in each,
    lambda each: 1 in each,
    lambda each: each.count("1"),
    lambda each: each.index("3"),
    lambda each: (each == ["1", "2", "3"], each != ["1", "2", "3"], each == [1, 2, 3], each != [1, 2, 3], each == ("1",)),
    lambda each: (operator.eq(["1", "2", "3"], each), operator.ne(["1", "2", "3"], each)),
    lambda each: ",".join(each),
    lambda each: (lambda *all_of_it: all_of_it)(*each),
]


@pytest.mark.parametrize("read", READS)
def test_it_is_read_as_a_list_is(read: Callable[[Any], Any]) -> None:
    result, expected = read(lazy([1, 2, 3])), read(["1", "2", "3"])
    assert result == expected
    assert type(result) is type(expected)


def test_nothing_is_converted_before_it_is_looked_at_or_twice() -> None:
    looked_at: list[int] = []

    def convert(number: int) -> str:
        looked_at.append(number)
        return str(number)

    numbers = LazyList([1, 2, 3, 4], int, convert)
    assert numbers.is_as_given()
    assert (len(numbers), numbers[-1], numbers[3]) == (4, "4", "4")
    assert not numbers.is_as_given()
    numbers.append("5")
    del numbers[0]
    assert looked_at == [4]
    restored: list[str] = []
    assert numbers.restored(lambda text: restored.append(text) or int(text)) == [2, 3, 4, 5]  # type: ignore[func-returns-value]
    assert restored == ["4", "5"]
