"""Names of tools that services of models refuse are found, and replaced where they come from a server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import AgentTool, FunctionTool, LlmAgent, Tool, ToolContext, tool
from actors.errors import DefinitionError
from actors.messages.llm import FunctionDeclaration
from actors.rules.checks.ids import flaw_of_name, safe_name, safe_names

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
