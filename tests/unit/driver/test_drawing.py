"""Drawings of trees and of the graphs in them."""

from __future__ import annotations

from actors import DEFAULT_ROUTE, START, AgentTool, Graph, LlmAgent
from runtime import AgentInfo, Runtime
from tests.support.graphs import double, named_node


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
