"""A tree as people see it: parts that are small enough to look at, what a search finds, and drawings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import DEFAULT_ROUTE, START, AgentTool, Graph, LlmAgent
from actors.errors import AgentTreeError, UnknownAgentError
from actors.messages.flow import CONTROLLER
from actors.messages.topology import AgentNode, Topology
from runtime import AgentInfo, Runtime
from runtime.driver.services.outline import check_workers, outline, search
from tests.support.graphs import double, named_node


def grown(parents: list[int]) -> Topology:
    """A tree: agent n + 1 stands below agent `parents[n]`, counted modulo those that are there."""
    above: list[int | None] = [None]
    for number, parent in enumerate(parents):
        above.append(parent % (number + 1))
    nodes = [
        AgentNode(
            name=f"a{index}",
            parent=None if parent is None else f"a{parent}",
            children=tuple(f"a{child}" for child, other in enumerate(above) if other == index),
        )
        for index, parent in enumerate(above)
    ]
    return Topology.of((*nodes, AgentNode(name=CONTROLLER, kind="flow")))


@given(st.lists(st.integers(0, 50), max_size=40), st.none() | st.integers(0, 5), st.integers(1, 20))
def test_every_agent_is_listed_or_counted_as_hidden(parents: list[int], depth: int | None, limit: int) -> None:
    topology = grown(parents)
    listed = {each.name: each for each in outline(topology, "a0", depth, limit)}
    assert len(listed) <= limit
    assert listed["a0"].hidden + len(listed) == len(parents) + 1
    for each in listed.values():
        assert each.hidden >= sum(child.hidden for child in each.children)
        if depth is None and limit > len(parents):
            names = tuple(child.name for child in each.children)
            assert (names, each.hidden) == (topology[each.name].children, 0)


def test_upper_levels_come_first_and_depth_counts_levels() -> None:
    topology = grown([0, 0, 1, 1, 2])
    assert [each.name for each in outline(topology, "a0", 1, 100)] == ["a1", "a2", "a0"]
    assert [(each.name, each.hidden) for each in outline(topology, "a0", None, 4)] == [
        ("a3", 0),
        ("a1", 1),
        ("a2", 1),
        ("a0", 2),
    ]
    assert [each.name for each in outline(topology, "a1", 0, 100)] == ["a1"]
    with pytest.raises(UnknownAgentError, match="Did you mean 'a1'"):
        outline(topology, "a11", None, 10)


def test_a_chain_deeper_than_pythons_recursion_limit_is_listed() -> None:
    assert len(outline(grown(list(range(3_000))), "a0", None, 10_000)) == 3_001


NODES = Topology.of(
    (
        AgentNode(name="desk", description="The front desk.", children=("refunds", "team"), model="m-1"),
        AgentNode(name="refunds", description="Money back.", parent="desk", model="m-2", tools=("pay",)),
        AgentNode(name="team", kind="sequential", parent="desk", children=("clerk",)),
        AgentNode(name="clerk", description="Refunds by hand.", parent="team", model="m-1", tools=("create_tasks", "succeed_x")),
        AgentNode(name=CONTROLLER, kind="flow"),
    )
)


def test_agents_are_found_by_words_and_by_what_they_are() -> None:
    def found(text: str = "", under: str | None = None, limit: int = 10, **wanted: str) -> list[str]:
        return [each.name for each in search(NODES, text, under, limit, **wanted)]

    assert found() == ["desk", "refunds", "team", "clerk"]
    assert found("refund") == ["refunds", "clerk"]
    assert found("refund", limit=1) == ["refunds"]
    assert found(model="m-1") == ["desk", "clerk"]
    assert found(kind="sequential") == ["team"]
    assert found(tool="pay") == ["refunds"]
    assert found("refund", under="team") == ["clerk"]
    assert found("gardening") == found(kind="flow") == []


def test_agents_of_a_flow_are_checked_by_what_is_known_of_them() -> None:
    check_workers(NODES, "f", ["desk", "refunds"])
    for agent, message in {
        "team": "flow 'f' names agent 'team', which is of kind 'sequential'",
        "clerk": "the name of its tool 'succeed_x' is taken in flows",
    }.items():
        with pytest.raises(AgentTreeError, match=message):
            check_workers(NODES, "f", [agent])
    asker = Topology.of((AgentNode(name="desk", tools=("ask_user",)),))
    check_workers(asker, "f", ["desk"])
    with pytest.raises(AgentTreeError, match="gets a tool 'ask_user', but has another one"):
        check_workers(asker, "f", ["desk"], ["desk"])


def drawn() -> AgentInfo:
    inner = Graph(name="inner", edges=[(START, double)])
    writer, helper = LlmAgent(name="end", model="ollama/m"), LlmAgent(name="helper", model="ollama/m")
    decide = named_node("decide")
    edges = [(START, (writer, inner), decide, {"again": (writer, inner), 7: double, DEFAULT_ROUTE: named_node("last")})]
    talker = LlmAgent(name="talker", model="ollama/m", sub_agents=[Graph(name="article", edges=edges)], tools=[AgentTool(helper)])
    return Runtime(talker, app_name="drawn", engine="local").tree()


def test_a_graph_is_drawn_with_its_edges() -> None:
    assert str(drawn()).splitlines() == [
        "talker (llm, ollama/m, helper)",
        "  article (graph)",
        "    START → end, inner",
        "    end → decide",
        "    inner → decide",
        "    decide ─again→ end, inner",
        "    decide ─7→ double",
        "    decide ─otherwise→ last",
        "    end (llm, ollama/m)",
        "    inner (graph)",
        "      START → double",
    ]


def test_a_tree_is_drawn_for_mermaid() -> None:
    assert drawn().mermaid().splitlines() == [
        "flowchart TD",
        '    a0["talker (llm)"]',
        '    subgraph a1 ["article (graph)"]',
        '        a2["end (llm)"]',
        '        subgraph a3 ["inner (graph)"]',
        '            a3_0(["START"])',
        '            a3_1["double"]',
        "            a3_0 --> a3_1",
        "        end",
        '        a1_2(["START"])',
        "        a1_2 --> a2",
        "        a1_2 --> a3",
        '        a1_3["decide"]',
        "        a2 --> a1_3",
        "        a3 --> a1_3",
        '        a1_3 -->|"again"| a2',
        '        a1_3 -->|"again"| a3',
        '        a1_4["double"]',
        '        a1_3 -->|"7"| a1_4',
        '        a1_5["last"]',
        '        a1_3 -->|"otherwise"| a1_5',
        "    end",
        "    a0 --> a1",
    ]
