"""Which agents a turn can be transferred to, and how the model is told (semantics.md section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from actors.definitions.agents.agent_tools import TransferTool
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.llm import FunctionDeclaration
from actors.messages.topology import AgentNode, Topology
from actors.rules.routing.selection import select_agent
from actors.rules.routing.transfer import Target, TransferMenu, route_refusal, transfer_targets
from tests.support.fixtures.tool_contexts import tool_context
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries

MAX_LISTED = DEFAULT_LIMITS.max_listed_targets

TARGETS = (Target("editor", "edits"), Target("boss", "", is_parent=True), Target("reviewer", "reviews"))


def reach(agent: str, targets: Sequence[Target]) -> TransferMenu:
    return TransferMenu(agent, targets, (), MAX_LISTED)


def instruction(targets: Sequence[Target]) -> str:
    return reach("writer", targets).instruction


def declaration(targets: Sequence[Target]) -> FunctionDeclaration:
    return reach("writer", targets).declaration()


def refusal(agent: str, wanted: object, targets: Sequence[Target]) -> str | None:
    return reach(agent, targets).refusal(wanted)


@settings(max_examples=tries(300))
@given(topologies())
def test_targets_are_the_children_then_the_parent_then_the_peers_as_far_as_they_are_allowed(tree: Topology) -> None:
    for node in tree.nodes:
        expected: list[str] = []
        parent = tree[node.parent] if node.parent else None
        if node.kind == "llm":
            expected += node.children
            if parent is not None and parent.kind == "llm":
                if not node.disallow_transfer_to_parent:
                    expected.append(parent.name)
                if not node.disallow_transfer_to_peers:
                    expected += [peer for peer in parent.children if peer != node.name]
        targets = transfer_targets(tree, node.name)
        assert [target.name for target in targets] == expected
        assert [target.description for target in targets] == [tree[name].description for name in expected]
        assert [target.name for target in targets if target.is_parent] == [name for name in expected if name == node.parent]


@settings(max_examples=tries(100))
@given(topologies())
def test_without_targets_there_is_no_text_and_with_them_it_names_each_with_its_description(tree: Topology) -> None:
    for node in tree.nodes:
        targets = transfer_targets(tree, node.name)
        text = instruction(targets)
        assert bool(text) == bool(targets)
        for target in targets:
            assert f"`{target.name}`" in text
            assert target.description in text


def test_the_tool_takes_one_required_string_out_of_the_targets_in_order() -> None:
    declared = declaration(TARGETS)
    assert declared.name == "transfer_to_agent"
    assert declared.parameters is not None
    assert declared.parameters["required"] == ["agent_name"]
    assert list(declared.parameters["properties"]) == ["agent_name"]
    agent_name = declared.parameters["properties"]["agent_name"]
    assert (agent_name["type"], agent_name["enum"]) == ("string", ["editor", "boss", "reviewer"])
    assert not TransferTool(reach("writer", TARGETS)).is_long_running


def test_the_text_tells_to_answer_oneself_or_to_call_and_be_silent_and_that_no_other_name_is_valid() -> None:
    text = instruction(TARGETS)
    for words in ("other agents", "answer yourself", "call `transfer_to_agent`", "write nothing beside the call", "no others"):
        assert words in text


def test_the_parent_is_the_way_back_only_when_it_is_a_target() -> None:
    assert "parent agent, `boss`" in instruction(TARGETS)
    assert "parent" not in instruction(TARGETS[:1] + TARGETS[2:])
    tree = Topology.of(
        (
            AgentNode(name="root", children=("a", "b")),
            AgentNode(name="a", parent="root", disallow_transfer_to_parent=True),
            AgentNode(name="b", parent="root", disallow_transfer_to_peers=True),
        )
    )
    assert "`root`" not in instruction(transfer_targets(tree, "a"))
    assert "parent agent, `root`" in instruction(transfer_targets(tree, "b"))
    assert "parent" not in instruction(transfer_targets(tree, "root"))


@pytest.mark.parametrize("wanted", ["editor", "boss", "reviewer"])
def test_a_target_is_not_refused(wanted: str) -> None:
    assert refusal("writer", wanted, TARGETS) is None


@pytest.mark.parametrize("wanted", ["reveiwer", "writer", "nobody", "Editor", " editor"])
def test_another_name_is_refused_and_the_valid_ones_are_named(wanted: str) -> None:
    refused = refusal("writer", wanted, TARGETS)
    assert refused is not None
    assert f"'writer' cannot transfer to {wanted!r}" in refused
    assert refused.endswith("Valid targets: editor, boss, reviewer")


def test_the_nearest_name_is_named() -> None:
    assert "Did you mean 'reviewer'?" in str(refusal("writer", "reveiwer", TARGETS))
    assert "Did you mean" not in str(refusal("writer", "xyz", TARGETS))


@pytest.mark.parametrize("wanted", [None, "", 7, ["editor"], {"name": "editor"}])
def test_an_argument_that_is_no_name_is_refused_and_the_valid_ones_are_named(wanted: Any) -> None:
    assert refusal("writer", wanted, TARGETS) == (
        "transfer_to_agent needs the argument agent_name, a string. Valid targets: editor, boss, reviewer"
    )


@pytest.mark.parametrize("args", [{}, {"agent_name": "nobody"}, {"agent_name": "writer"}, {"name": "editor"}])
def test_a_refused_transfer_is_an_error_to_the_model_and_sets_no_action(args: dict[str, Any]) -> None:
    context = tool_context()
    answer = asyncio.run(TransferTool(reach("writer", TARGETS)).run(args, context))
    assert answer is not None
    assert "Valid targets: editor, boss, reviewer" in answer["error"]
    assert context.actions.transfer_to_agent is None


def test_a_valid_transfer_sets_the_action_and_answers_nothing() -> None:
    context = tool_context()
    assert asyncio.run(TransferTool(reach("writer", TARGETS)).run({"agent_name": "boss"}, context)) is None
    assert context.actions.transfer_to_agent == "boss"


def test_the_runner_refuses_names_that_are_not_in_the_tree_and_names_the_nearest() -> None:
    tree = Topology.of((AgentNode(name="root", children=("billing",)), AgentNode(name="billing", parent="root")))
    assert route_refusal(tree, "billing", None) is None
    assert "Did you mean 'billing'?" in str(route_refusal(tree, "biling", None))


def test_an_agent_that_is_a_tool_is_selected_and_reached_from_below_it_only() -> None:
    expert = (AgentNode(name="expert", children=("helper",)), AgentNode(name="helper", parent="expert"))
    tree = Topology.of((AgentNode(name="root", children=("a",)), AgentNode(name="a", parent="root"), *expert))
    assert select_agent(tree, ["expert", "helper", "a"]).agent == "a"
    assert select_agent(tree, ["a"], caller="helper").agent == "a"
    assert "used as a tool" in str(route_refusal(tree, "helper", None))
    assert route_refusal(tree, "helper", "expert") is None
    assert "'expert'" in str(route_refusal(tree, "a", "expert"))


@settings(max_examples=tries(100))
@given(topologies())
def test_inside_a_workflow_a_transfer_stays_at_or_below_its_child(tree: Topology) -> None:
    for scope in tree.nodes:
        for wanted in tree.nodes:
            above = {node.name for node in tree.lineage(wanted.name)}
            assert (route_refusal(tree, wanted.name, scope.name) is None) == (scope.name in above)
