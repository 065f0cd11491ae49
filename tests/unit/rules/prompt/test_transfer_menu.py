"""The text about transfer targets in a request is bounded, however many targets there are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.definitions.tools.base import Tool
from actors.definitions.tools.transfer import transfer_tools
from actors.messages.codec import encode
from actors.messages.limits import DEFAULT_LIMITS
from actors.rules.prompt.agent_search import MAX_FOUND
from actors.rules.prompt.transfer_menu import TransferMenu
from actors.rules.routing.transfer import Target
from tests.support.fixtures.tool_contexts import tool_context

MOST = DEFAULT_LIMITS.max_listed_targets
FEW = (Target("editor", "edits"), Target("boss", "", is_parent=True), Target("reviewer", "reviews"))
OLD_INSTRUCTION = """\
You work together with other agents. These can take over the conversation:
- editor: edits
- boss
- reviewer: reviews

If you are the best one to answer, answer yourself. If, going by its description, another agent is better placed, call \
`transfer_to_agent` with its name and write nothing beside the call.
Valid names are `editor`, `boss`, `reviewer`, and no others.
When neither you nor another agent of the list fits, hand back to your parent agent, `boss`."""


def many(count: int, *, described: str = "Knows about {}.", parent: bool = False) -> tuple[Target, ...]:
    targets = [Target(f"clerk_{number}", described.format(number)) for number in range(count)]
    return (*targets, *([Target("boss", "Leads.", is_parent=True)] if parent else []))


def reach(targets: tuple[Target, ...], children: tuple[str, ...] = ()) -> TransferMenu:
    return TransferMenu("writer", targets, children, MOST)


def tools(targets: tuple[Target, ...]) -> dict[str, Tool]:
    return {tool.name: tool for tool in transfer_tools(reach(targets))}


def asked(targets: tuple[Target, ...], tool: str, **args: Any) -> tuple[Any, str | None]:
    """What the tool answers, and whom it transfers to."""
    context = tool_context()
    answer = asyncio.run(tools(targets)[tool].run(args, context))
    return answer, context.actions.transfer_to_agent


def test_few_targets_are_told_word_for_word_as_they_ever_were() -> None:
    assert reach(FEW, ("editor",)).instruction == OLD_INSTRUCTION
    declaration = reach(FEW).declaration()
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "agent_name": {
                "type": "string",
                "description": "Name of the agent that takes over.",
                "enum": ["editor", "boss", "reviewer"],
            }
        },
        "required": ["agent_name"],
    }
    assert list(tools(FEW)) == ["transfer_to_agent"]


@pytest.mark.parametrize(("count", "names"), [(MOST, ["transfer_to_agent"]), (MOST + 1, ["find_agents", "transfer_to_agent"])])
def test_one_target_more_than_are_listed_makes_it_a_search(count: int, names: list[str]) -> None:
    targets = many(count)
    assert list(tools(targets)) == names
    declared = tools(targets)["transfer_to_agent"].declaration()
    assert declared is not None
    parameters = declared.parameters
    assert parameters is not None
    assert parameters["required"] == ["agent_name"]
    assert ("enum" in parameters["properties"]["agent_name"]) == (count == MOST)
    assert ("`clerk_0`" in reach(targets).instruction) == (count == MOST)


@given(st.integers(MOST, 400), st.integers(0, 400), st.booleans())
def test_what_a_model_is_told_is_bounded_for_any_number_of_targets(count: int, own: int, parent: bool) -> None:
    targets = many(count, described="d" * 100, parent=parent)
    told = reach(targets, tuple(target.name for target in targets[: min(own, count)]))
    size = len(told.instruction) + len(encode([tool.declaration() for tool in transfer_tools(told)]))
    assert size < 2_000 + MOST * (2 * 100)
    assert ("parent agent, `boss`" in told.instruction) == parent


def test_children_are_listed_beside_many_peers() -> None:
    text = reach((Target("own", "Mine."), *many(200)), ("own",)).instruction
    assert "These are nearest to you:\n- own: Mine.\n\n" in text
    assert "clerk_" not in text
    assert "find_agents" in text
    assert "201 other agents" in text


def test_with_many_children_none_is_listed_and_the_parent_is_named() -> None:
    targets = many(200, parent=True)
    text = reach(targets, tuple(target.name for target in targets[:-1])).instruction
    assert "nearest" not in text
    assert text.endswith("When neither you nor another agent fits, hand back to your parent agent, `boss`.")


def test_every_one_of_many_is_a_target_and_nobody_else() -> None:
    targets = many(200, parent=True)
    for target in targets:
        assert asked(targets, "transfer_to_agent", agent_name=target.name) == (None, target.name)
    for wrong in ("writer", "clerk_200", "Clerk_1", " clerk_1"):
        answer, transfer = asked(targets, "transfer_to_agent", agent_name=wrong)
        meant = "" if wrong == "writer" else " Did you mean 'clerk_"
        assert transfer is None
        assert answer["error"].startswith(f"agent 'writer' cannot transfer to {wrong!r}: no such target.{meant}")
        assert answer["error"].endswith(" Call find_agents to find valid targets.")


@given(st.text(min_size=0, max_size=50), st.integers(1, 1_000), st.integers(MOST + 1, 500))
@example("clerk", 10_000, 100)
def test_a_refusal_is_bounded(wrong: str, times: int, count: int) -> None:
    refused = reach(many(count)).refusal(wrong * times)
    assert refused is not None
    # Letters that cannot be shown take up to ten.
    assert len(refused) < 3_000


@pytest.mark.parametrize("args", [{}, {"agent_name": ""}, {"agent_name": 7}])
def test_an_argument_that_is_no_name_is_told_how_to_find_one(args: dict[str, Any]) -> None:
    answer, transfer = asked(many(100), "transfer_to_agent", **args)
    assert answer == {
        "error": "transfer_to_agent needs the argument agent_name, a string. Call find_agents to find valid targets."
    }
    assert transfer is None


def test_a_search_tells_names_and_descriptions_of_the_best_and_transfers_nothing() -> None:
    targets = (*many(100), Target("refunds", "Pays money back."))
    answer, transfer = asked(targets, "find_agents", query="pays money back about it")
    assert transfer is None
    assert answer["agents"][0] == {"name": "refunds", "description": "Pays money back."}
    assert len(answer["agents"]) == MAX_FOUND
    assert asked(targets, "find_agents", query="clerk_7")[0]["agents"][0]["name"] == "clerk_7"


def test_a_search_that_finds_nobody_says_what_to_do() -> None:
    answer, _ = asked(many(100), "find_agents", query="dinosaurs")
    assert answer == {"agents": [], "hint": "No agent fits these words. Try others, or answer yourself."}


@pytest.mark.parametrize("args", [{}, {"query": " "}, {"query": 7}, {"words": "x"}])
def test_a_search_without_words_is_an_error(args: dict[str, Any]) -> None:
    answer, _ = asked(many(100), "find_agents", **args)
    assert answer == {"error": "find_agents needs the argument query, words to look for"}
