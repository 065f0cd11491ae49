"""Which agents are below an agent."""

from __future__ import annotations

from actors.layers.spending.accounts import agents_below
from actors.messages.topology import AgentNode, Topology

TREE = Topology.of(
    [
        AgentNode(name="root", children=("team", "flow")),
        AgentNode(name="team", parent="root", children=("a",), tool_agents=("expert",)),
        AgentNode(name="a", parent="team", tool_agents=("expert",)),
        AgentNode(name="flow", kind="flow", parent="root", workers=("a",)),
        AgentNode(name="expert", tool_agents=("expert",), children=("helper",)),
        AgentNode(name="helper", parent="expert"),
    ]
)


def test_children_tools_and_workers_are_below_and_what_is_below_those() -> None:
    assert agents_below(TREE, "team") == {"team", "a", "expert", "helper"}
    assert agents_below(TREE, "flow") == {"flow", "a", "expert", "helper"}
    assert agents_below(TREE, "helper") == {"helper"}
    assert agents_below(TREE, "root") == {"root", "team", "flow", "a", "expert", "helper"}


def test_an_agent_that_is_not_in_the_tree_is_alone() -> None:
    assert agents_below(TREE, "stranger") == {"stranger"}
