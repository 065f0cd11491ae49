"""Ids, and names of apps, artifacts and tools: which are valid, and what the error says of one that is not."""

from __future__ import annotations

import enum
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import AgentTool, FunctionTool, LlmAgent, Tool, ToolContext, tool
from actors.errors import DefinitionError, InvalidIdError
from actors.messages.codec import encode
from actors.messages.llm import FunctionDeclaration
from actors.messages.session import SessionKey
from actors.rules.checks.ids import (
    MAX_ARTIFACT_NAME,
    MAX_ID,
    checked_app_name,
    checked_artifact_name,
    checked_id,
    checked_key,
    checked_known_id,
    checked_known_key,
    flaw_of_name,
    is_id,
    safe_name,
    safe_names,
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


OPENAI = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")

names = st.text(max_size=90) | st.from_regex(r"\A[a-zA-Z0-9_.:/-]{1,80}\Z")


@given(st.lists(names, max_size=6, unique=True))
def test_all_services_take_the_names_of_a_server_and_no_two_are_one(given_names: list[str]) -> None:
    safe = safe_names(given_names)
    assert len(set(safe)) == len(given_names)
    for name, shown in zip(given_names, safe, strict=True):
        assert all(service.fullmatch(shown) for service in (OPENAI, ANTHROPIC, GEMINI))
        assert flaw_of_name(shown) is None
        if flaw_of_name(name) is None:
            assert shown == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("my tool", "my_tool"),
        ("größe", "grosse"),
        ("files/read", "files_read"),
        ("3d.model", "_3d_model"),
        ("a:b", "a_b"),
        ("工具", "tool"),
        ("x" * 80, "x" * 55 + "_d929cdee"),
    ],
)
def test_a_name_has_always_the_same_other_name(name: str, shown: str) -> None:
    assert (safe_name(name), safe_names([name])) == (shown, [shown])


def test_of_two_names_that_would_become_one_the_one_that_services_take_stays() -> None:
    assert safe_names(["a.b", "a_b", "a:b"]) == ["a_b_2e7336dc", "a_b", "a_b_6783a31e"]


def ask() -> str:
    """Ask."""
    return ""


class Odd(Tool):
    """A tool of a user's own class."""

    name = "odd/tool"

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name)

    async def run(self, args: dict[str, object], context: ToolContext) -> str:
        return ""


def test_a_name_that_services_refuse_is_refused_when_the_tool_is_defined() -> None:
    for name, instead in (("my tool", "my_tool"), ("größe", "grosse"), ("x" * 80, safe_name("x" * 80))):
        with pytest.raises(DefinitionError, match=rf"such as '{instead}'.*name="):
            FunctionTool(ask, name=name)
    with pytest.raises(DefinitionError, match=r"'my.tool'.*such as 'my_tool'"):
        tool(name="my.tool")(ask)


def test_a_name_of_another_kind_of_tool_is_refused_when_its_agent_is_defined() -> None:
    with pytest.raises(DefinitionError, match=r"'odd/tool'.*such as 'odd_tool'"):
        LlmAgent(name="root", tools=[Odd()])
    with pytest.raises(DefinitionError, match=r"'größe'.*such as 'grosse'"):
        LlmAgent(name="root", tools=[AgentTool(LlmAgent(name="größe"))])
