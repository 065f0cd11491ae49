"""Which agents work for an agent, directly or through others."""

from __future__ import annotations

from actors.messages.topology import Topology


def agents_below(topology: Topology, name: str) -> frozenset[str]:
    """The agent itself and all below it: its children, the agents that it has as tools, the workers of its flow, and all theirs.

    Returns:
        Their names; that of the agent alone, if it is not in the tree.
    """
    found: dict[str, None] = {name: None}
    left = [name]
    while left:
        node = topology.find(left.pop())
        if node is None:
            continue
        for each in (*node.children, *node.tool_agents, *node.workers):
            if each not in found:
                found[each] = None
                left.append(each)
    return frozenset(found)
