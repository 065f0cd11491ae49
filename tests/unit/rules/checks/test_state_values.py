"""Values that the state cannot hold, where they are hard to look at."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import NotEncodableError
from actors.rules.checks.state import check
from actors.rules.checks.state_values import check_value, stored_delta


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
