"""State: its scopes, how deltas are taken back, and values that it cannot hold (semantics.md section 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import NotEncodableError
from actors.rules.checks.state import check, merge, only_temp, overwritten, split, take_back, without_temp
from actors.rules.checks.values import check_value, stored_delta

keys = st.builds("{}{}".format, st.sampled_from(["", "", "app:", "user:", "temp:"]), st.sampled_from(["a", "b", "c", ""]))
values = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
deltas = st.dictionaries(keys, values, max_size=5)
plain_deltas = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), values, max_size=4)


@given(deltas)
def test_merging_what_was_split_gives_it_back(delta: dict[str, Any]) -> None:
    assert merge(split(delta)) == delta


@given(deltas)
def test_every_key_goes_to_the_scope_of_its_prefix(delta: dict[str, Any]) -> None:
    scopes = split(delta)
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


def nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def test_the_way_to_a_value_is_named() -> None:
    with pytest.raises(NotEncodableError, match=r"a set .*: state\['k'\]\[1\]\['a'\]\[0\] would come back as a list"):
        check_value("k", [0, {"b": 1, "a": [{1}]}])


# Python itself goes some hundred levels deep, from 3.12 on some thousand, and from 3.14 on it writes more of them than it reads.
@pytest.mark.parametrize("depth", [101, 1_000, 20_000, 50_000, 100_000])
def test_what_is_nested_too_deep_is_left_to_the_check_of_the_whole_event(depth: int) -> None:
    check_value("k", nested(depth, {1}))
    with pytest.raises(NotEncodableError, match="nested deeper than 100 levels"):
        check(stored_delta({"k": nested(depth, 1)}))


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
