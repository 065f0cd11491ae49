"""What of a tree the page of ADK draws, and how."""

from __future__ import annotations

import re

import msgspec

from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.tree_graphs import dot_of, tree_part


def agent(name: str, *children: AgentInfo, kind: str = "llm", tools: tuple[str, ...] = ()) -> AgentInfo:
    below = [msgspec.structs.replace(child, parent=name) for child in children]
    return AgentInfo(name=name, kind=kind, tools=tools, children=below)


def tree(children: int, grandchildren: int) -> AgentInfo:
    below = [agent(f"a{i}", *(agent(f"a{i}_{j}") for j in range(grandchildren))) for i in range(children)]
    return agent("root", *below)


def test_a_small_tree_is_drawn_whole_with_its_tools() -> None:
    part = tree_part(agent("root", agent("billing", tools=("pay", 'say "hi"')), tools=("pay",)))
    assert (list(part.agents), part.tools) == (["root", "billing"], {"root": ["pay"], "billing": ["pay", 'say "hi"']})
    # A tool that two agents have is one node.
    assert part.size() == 4
    drawn = dot_of(part, marked={"billing", "pay"})
    assert '"root" -> "billing"' in drawn
    assert '"billing" -> "say \\"hi\\"" [style="dashed"]' in drawn
    assert len(re.findall("fillcolor=.#0F5223", drawn)) == 2
    assert dot_of(part) != dot_of(part, dark=True)


def test_upper_levels_come_first_and_what_is_left_out_is_counted() -> None:
    part = tree_part(tree(3, 4), limit=8)
    assert part.size() <= 8
    assert {"root", "a0", "a1", "a2"} <= set(part.agents)
    shown = len(part.agents)
    assert sum(part.hidden.values()) == 16 - shown
    assert "… 4 more" in dot_of(part)


def test_agents_of_the_session_come_before_all_others_with_those_above_them() -> None:
    part = tree_part(tree(1000, 9), ["user", "a999_8"], limit=20)
    assert list(part.agents)[:3] == ["root", "a999", "a999_8"]
    assert part.size() <= 20
    assert part.hidden["a999"] == 8
    assert sum(part.hidden.values()) + len(part.agents) == 10_001
    assert f"… {part.hidden['root']:,} more" in dot_of(part)


def test_an_agent_of_many_tools_has_room_too() -> None:
    part = tree_part(agent("root", agent("billing"), tools=tuple(f"t{i}" for i in range(600))), limit=50)
    assert part.size() <= 50
    assert "tools more" in dot_of(part)


def test_a_tree_may_be_deep() -> None:
    deep = agent("a600")
    for level in reversed(range(600)):
        deep = agent(f"a{level}", deep)
    part = tree_part(deep)
    assert (part.size(), part.hidden) == (500, {"a498": 102})
    assert part.levels()["a498"] == 498


def test_workflows_are_numbered() -> None:
    drawn = dot_of(tree_part(agent("steps", agent("first"), agent("second"), kind="sequential")))
    assert '"steps" -> "second" [label="2"]' in drawn
    assert "steps\\n(sequential)" in drawn
