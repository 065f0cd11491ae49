"""State: its scopes, its keys, and how deltas are taken back (semantics.md section 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidIdError, NotEncodableError
from actors.messages.codec import encode
from actors.rules.checks.ids import MAX_ID
from actors.rules.checks.state import check, merge, only_temp, overwritten, split, take_back, without_temp
from tests.unit.rules.checks.test_ids import anything

keys = st.builds("{}{}".format, st.sampled_from(["", "", "app:", "user:", "temp:"]), st.sampled_from(["a", "b", "c", ""]))
values = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
deltas = st.dictionaries(keys, values, max_size=5)
plain_deltas = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), values, max_size=4)


@given(deltas)
def test_every_key_goes_to_the_scope_of_its_prefix_and_merged_they_are_what_was_split(delta: dict[str, Any]) -> None:
    scopes = split(delta)
    assert merge(scopes) == delta
    assert sum(map(len, scopes)) == len(delta)
    assert scopes.app == {key[4:]: value for key, value in delta.items() if key.startswith("app:")}
    assert scopes.user == {key[5:]: value for key, value in delta.items() if key.startswith("user:")}
    assert scopes.temp == only_temp(delta)
    assert merge(scopes._replace(temp={})) == without_temp(delta)


@given(plain_deltas, st.lists(plain_deltas, max_size=6), st.integers(0, 6))
def test_what_several_deltas_overwrote_brings_the_state_before_them_back(
    start: dict[str, Any], steps: list[dict[str, Any]], kept: int
) -> None:
    state = dict(start)
    undos: list[dict[str, list[Any]]] = []
    before = dict(state)
    for number, delta in enumerate(steps):
        if number == kept:
            before, undos = dict(state), []
        undos.insert(0, overwritten(state, delta))
        state.update(delta)
    if kept >= len(steps):
        before, undos = dict(state), []
    for key, value in take_back([*undos]).items():
        if value:
            state[key] = value[0]
        else:
            del state[key]
    assert state == before


def test_a_value_of_none_that_is_overwritten_is_something_else_than_none_at_all() -> None:
    assert overwritten({"a": None}, {"a": 1, "b": 2}) == {"a": [None], "b": []}


def test_temp_state_is_kept_out_of_what_is_stored() -> None:
    delta = {"a": 1, "temp:a": 2, "temp": 3}
    assert without_temp(delta) == {"a": 1, "temp": 3}
    assert only_temp(delta) == {"a": 2}


@given(st.dictionaries(anything, st.none(), max_size=3))
def test_state_has_keys_that_can_be_stored(delta: dict[Any, Any]) -> None:
    try:
        check(delta)
    except InvalidIdError as error:
        encode(list(error.args))
    else:
        assert all(isinstance(key, str) and 0 < len(key.encode()) <= 4 * MAX_ID for key in delta)


def test_a_value_of_state_is_not_nested_too_deep() -> None:
    value: Any = 1
    for _ in range(98):
        value = {"a": [value]} if isinstance(value, int) else {"a": value}
    check({"k": value})
    with pytest.raises(NotEncodableError, match="100 levels"):
        check({"k": {"a": value}})
