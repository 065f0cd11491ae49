"""Which agents a turn can be transferred to, and how the model finds and names them (semantics.md section 3).

The text about targets in a request is bounded, however many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.definitions.agents.agent_tools import TransferTool, transfer_tools
from actors.definitions.tools.base import Tool
from actors.messages.codec import encode
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.topology import AgentNode, Topology
from actors.rules.routing.selection import select_agent
from actors.rules.routing.transfer import MAX_FOUND, AgentSearch, Target, TransferMenu, route_refusal, transfer_targets, words
from tests.support.fixtures.tool_contexts import tool_context
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries

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


def reach(targets: Sequence[Target], children: tuple[str, ...] = ()) -> TransferMenu:
    return TransferMenu("writer", targets, children, MOST)


def tools(targets: tuple[Target, ...]) -> dict[str, Tool]:
    return {tool.name: tool for tool in transfer_tools(reach(targets))}


def asked(targets: tuple[Target, ...], tool: str, **args: Any) -> tuple[Any, str | None]:
    """What the tool answers, and whom it transfers to."""
    context = tool_context()
    answer = asyncio.run(tools(targets)[tool].run(args, context))
    return answer, context.actions.transfer_to_agent


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
        text = reach(targets).instruction
        assert bool(text) == bool(targets)
        for target in targets:
            assert f"`{target.name}`" in text
            assert target.description in text


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ("editor", None),
        ("boss", None),
        ("reveiwer", "agent 'writer' cannot transfer to 'reveiwer': no such target. Did you mean 'reviewer'?"),
        ("writer", "agent 'writer' cannot transfer to 'writer': no such target."),
        ("Editor", "agent 'writer' cannot transfer to 'Editor': no such target. Did you mean 'editor'?"),
        (" editor", "agent 'writer' cannot transfer to ' editor': no such target. Did you mean 'editor'?"),
        ("xyz", "agent 'writer' cannot transfer to 'xyz': no such target."),
        *((wrong, "transfer_to_agent needs the argument agent_name, a string.") for wrong in (None, "", 7, ["editor"])),
    ],
)
def test_what_is_no_target_is_refused_and_the_valid_ones_are_named(wanted: Any, refused: str | None) -> None:
    assert reach(FEW).refusal(wanted) == (f"{refused} Valid targets: editor, boss, reviewer" if refused else None)


def test_the_parent_is_the_way_back_only_when_it_is_a_target() -> None:
    tree = Topology.of(
        (
            AgentNode(name="root", children=("a", "b")),
            AgentNode(name="a", parent="root", disallow_transfer_to_parent=True),
            AgentNode(name="b", parent="root", disallow_transfer_to_peers=True),
        )
    )
    told = {name: reach(transfer_targets(tree, name)).instruction for name in ("a", "b", "root")}
    assert "`root`" not in told["a"]
    assert "parent agent, `root`" in told["b"]
    assert "parent" not in told["root"]


@pytest.mark.parametrize("args", [{}, {"agent_name": "nobody"}, {"agent_name": "writer"}, {"name": "editor"}])
def test_a_refused_transfer_is_an_error_to_the_model_and_sets_no_action(args: dict[str, Any]) -> None:
    context = tool_context()
    answer = asyncio.run(TransferTool(reach(FEW)).run(args, context))
    assert answer is not None
    assert "Valid targets: editor, boss, reviewer" in answer["error"]
    assert context.actions.transfer_to_agent is None


def test_a_valid_transfer_sets_the_action_and_answers_nothing() -> None:
    context = tool_context()
    assert asyncio.run(TransferTool(reach(FEW)).run({"agent_name": "boss"}, context)) is None
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


def test_few_targets_are_told_word_for_word_as_they_ever_were() -> None:
    assert reach(FEW, ("editor",)).instruction == OLD_INSTRUCTION
    declaration = reach(FEW).declaration()
    assert declaration.name == "transfer_to_agent"
    assert not TransferTool(reach(FEW)).is_long_running
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


AGENTS = {
    "refund_clerk": "Pays money back for orders.",
    "order_clerk": "Looks orders up.",
    "billing": "Invoices and cards, also of old orders.",
    "borderline": "Decides who may enter.",
    "TaxAdviser": "Answers questions about taxes.",
    "hotel_7": "Books rooms.",
    "hotel_77": "Books rooms.",
    "tuikuan": "处理退款和发票",
    "silent": "",
}

identifiers = st.text("abAB_1éß", min_size=1, max_size=6).filter(str.isidentifier)
trees = st.lists(st.tuples(identifiers, st.text("abc XYZ.é1", max_size=12)), max_size=30, unique_by=lambda each: each[0])


def found(question: str, agents: dict[str, str] = AGENTS) -> list[str]:
    names = list(agents)
    return [names[place] for place in AgentSearch(names, list(agents.values())).find(question)]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("refund", "refund_clerk"),
        ("I want refunds, please", "refund_clerk"),
        ("REFUND", "refund_clerk"),
        ("an invoice", "billing"),
        ("tax adviser", "TaxAdviser"),
        ("taxadviser", "TaxAdviser"),
        ("hotel 7", "hotel_7"),
        ("hotel_77", "hotel_77"),
        ("退款", "tuikuan"),
        ("silent", "silent"),
        ("border", "borderline"),
    ],
)
def test_words_find_who_they_fit(question: str, first: str) -> None:
    assert found(question)[0] == first


def test_a_whole_word_counts_more_than_a_part_and_a_name_more_than_a_description() -> None:
    assert found("order") == ["order_clerk", "borderline", "refund_clerk", "billing"]


def test_a_word_that_few_have_counts_more_than_one_that_many_have() -> None:
    agents = {f"clerk_{number}": "Answers questions." for number in range(50)} | {"x": "Answers about dinosaurs."}
    assert found("answers dinosaurs", agents)[0] == "x"


@pytest.mark.parametrize("question", ["", "  ", "?!", "zebra", "_", "i", "or"])
def test_words_that_fit_nobody_find_nobody(question: str) -> None:
    assert found(question) == []


@given(trees)
def test_everybody_is_found_first_by_its_own_name(agents: Sequence[tuple[str, str]]) -> None:
    for name, _ in agents:
        assert found(name, dict(agents))[0] == name
        assert found(f" {name}\n", dict(agents))[0] == name


@given(trees, st.text("abcAB_ 1é.X", max_size=20))
def test_at_most_ten_are_found_each_once_and_always_the_same(agents: Sequence[tuple[str, str]], question: str) -> None:
    first = found(question, dict(agents))
    assert len(first) == len(set(first)) <= MAX_FOUND
    assert first == found(question, dict(agents))


@given(st.integers(1, 40), st.sampled_from(["room", "books", "hotel"]))
def test_equal_agents_stay_in_their_order(count: int, question: str) -> None:
    agents = {f"hotel_{chr(97 + number % 26)}{'x' * number}": "Books rooms." for number in range(count)}
    assert found(question, agents) == list(agents)[:MAX_FOUND]


@given(trees, st.text("abcAB_ 1é.X", max_size=20))
def test_who_fits_no_word_changes_nothing_for_the_others(agents: Sequence[tuple[str, str]], question: str) -> None:
    strangers = {**dict(agents), "zzz": "qqq"}
    assert set(found(question, strangers)) == set(found(question, dict(agents))) - {"zzz"}


def test_names_are_taken_apart_at_underscores_humps_and_digits() -> None:
    assert words("RefundClerk_2b, für HTTP") == ["refund", "clerk", "2", "b", "für", "http"]


def test_a_number_means_no_other() -> None:
    assert found("7") == ["hotel_7"]
    assert found("77") == ["hotel_77"]
    assert found("777") == []


def test_a_question_of_any_length_is_answered() -> None:
    assert found("refund " + " ".join(f"x{number}y" for number in range(10_000)))[0] == "refund_clerk"


def test_agents_that_fit_no_word_leave_the_order_of_the_others_as_it_is() -> None:
    agents = {"alpha_beta": "", "alpha": "beta", "beta": "", "beta_x": "", "gamma": "alpha"}
    strangers = {f"zzz{number}": "qqq" for number in range(1_000)}
    assert found("alpha beta", {**strangers, **agents}) == found("alpha beta", agents)
