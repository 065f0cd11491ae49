"""What a body says in JSON, and what is no number of Python's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.frontends.web.call import decoded


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: int | str


class Wanted(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    most_calls: int | None = None
    share: float = 0.0
    is_dry: bool = False
    within: tuple[Inner, ...] = ()
    state: dict[str, Any] = {}


def test_a_whole_float_is_an_integer_where_one_is_wanted_and_a_float_in_a_state() -> None:
    found = decoded(b'{"mostCalls": 471.0, "share": 2, "within": [{"at": 1e3}], "state": {"price": 5.0}}', Wanted)
    assert found == Wanted(most_calls=471, share=2.0, within=(Inner(1000),), state={"price": 5.0})
    assert isinstance(found.state["price"], float)
    assert isinstance(found.most_calls, int)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b'{"mostCalls": 0.5}', "got `float` - at `$.mostCalls`"),
        (b'{"mostCalls": 5.0, "isDry": "true"}', "got `str` - at `$.isDry`"),
        (b'{"mostCalls": "5"}', "got `str` - at `$.mostCalls`"),
        (b'{"mostCalls": 5.0, "isDry": 1}', "got `int` - at `$.isDry`"),
        (b'{"mostCalls": 5.0, "other": 1}', "unknown field `other`"),
    ],
)
def test_nothing_else_is_taken_for_something_else(body: bytes, wrong: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        decoded(body, Wanted)
    assert wrong in str(raised.value)


@given(st.integers(-(2**53), 2**53), st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_an_integer_is_the_same_however_it_is_written(number: int, state: dict[str, Any]) -> None:
    rest = msgspec.json.encode(state).decode()
    written = [f'{{"mostCalls": {each}, "state": {rest}}}'.encode() for each in (number, float(number))]
    first, second = (decoded(each, Wanted) for each in written)
    assert first == second == Wanted(most_calls=number, state=state)
