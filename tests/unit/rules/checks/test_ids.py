"""Names and ids: which are valid, and what the error says of one that is not."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidIdError, NotEncodableError
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.rules.checks import state
from actors.rules.checks.ids import (
    MAX_ARTIFACT_NAME,
    MAX_ID,
    checked_app_name,
    checked_artifact_name,
    checked_id,
    checked_key,
    checked_known_id,
    checked_known_key,
    is_id,
)

anything = st.text(st.characters(exclude_categories=()), max_size=300) | st.integers() | st.binary() | st.none()


class Plan(enum.StrEnum):
    FREE = "free"


class Untold:
    def __repr__(self) -> str:
        raise ValueError("no")


@given(anything)
def test_what_is_an_id_can_be_stored_and_shown_on_one_line_and_what_is_none_is_told_so(value: Any) -> None:
    if is_id(value):
        assert checked_id("user id", value) == value
        assert len(value.splitlines()) == 1
        assert len(value.encode()) <= 4 * MAX_ID
        return
    with pytest.raises(InvalidIdError) as raised:
        checked_id("user id", value)
    assert len(str(raised.value).encode()) < 600
    encode(list(raised.value.args))


@pytest.mark.parametrize("value", ["", " ", " a", "a ", "a\t", "\x7f", "\u3000a", "a\ud800", "a" * (MAX_ID + 1)])
def test_what_is_empty_too_long_or_not_shown_is_no_id(value: str) -> None:
    assert not is_id(value)


@pytest.mark.parametrize("value", ["a" * MAX_ID, "a b", "a\u200db", "\u00a0".join("ab"), "-", "🙂", "\u0301"])
def test_an_id_may_hold_what_names_hold(value: str) -> None:
    assert is_id(value)


@pytest.mark.parametrize(
    "value", ["a" * (MAX_ID + 1), "\u3000a", "a\t", "\x7f", "\x85", "\u2066a", "\udc80", Untold(), [0] * 9_999]
)
def test_an_id_may_not_hold_what_nobody_can_read(value: Any) -> None:
    with pytest.raises(InvalidIdError, match=r"session id .* is not valid: use a text of 1 to 256"):
        checked_key("app", "ada", value)


def test_a_member_of_an_enum_is_its_value() -> None:
    key = checked_key("app", Plan.FREE, Plan.FREE)
    assert (type(key.user), key.user) == (str, "free")


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "ä", "a\n", "x" * 129, None, 7])
def test_the_name_of_an_app_is_a_plain_word(name: Any) -> None:
    with pytest.raises(InvalidIdError, match="app name"):
        checked_app_name(name)


@given(anything)
def test_the_name_of_an_artifact_is_any_text_on_one_line(name: Any) -> None:
    try:
        assert checked_artifact_name(name) is name
    except InvalidIdError as error:
        encode(list(error.args))
        assert not is_id(name)
    else:
        assert len(name) <= MAX_ARTIFACT_NAME
        assert len(name.splitlines()) <= 1


@given(st.dictionaries(anything, st.none(), max_size=3))
def test_state_has_keys_that_can_be_stored(delta: dict[Any, Any]) -> None:
    try:
        state.check(delta)
    except InvalidIdError as error:
        encode(list(error.args))
    else:
        assert all(isinstance(key, str) and 0 < len(key.encode()) <= 4 * MAX_ID for key in delta)


def test_a_value_of_state_is_not_nested_too_deep() -> None:
    value: Any = 1
    for _ in range(98):
        value = {"a": [value]} if isinstance(value, int) else {"a": value}
    state.check({"k": value})
    with pytest.raises(NotEncodableError, match="100 levels"):
        state.check({"k": {"a": value}})


@pytest.mark.parametrize("value", ["\u200b", "\ufeff", "\u200b\ufeff\u2060", "\u00ad", "\u3164", "\u2800", "\u200d\u200c"])
def test_a_new_id_shows_something_and_a_stored_one_can_still_be_read(value: str) -> None:
    assert not is_id(value)
    with pytest.raises(InvalidIdError):
        checked_key("app", value, "s1")
    assert checked_known_key("app", value, value) == SessionKey("app", value, value)
    assert is_id(f"{value}a") == (value.strip() == value)


@given(anything)
def test_what_is_an_id_is_one_that_may_be_stored(value: Any) -> None:
    if is_id(value):
        assert checked_known_id("user id", value) == value
