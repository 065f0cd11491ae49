"""Which agents of a tree summarise the conversation, so that one does where several begin at the same time."""

from __future__ import annotations

from actors.messages.topology import GRAPH, Topology

_PARALLEL = "parallel"


def summarises(topology: Topology, agent: str) -> bool:
    """True for an agent that summarises: none below a graph, and below a ParallelAgent those of its first child only.

    What works for the calls of another agent, and tool agents with all that is below them, see another conversation.
    """
    node = topology[agent]
    while node.parent is not None:
        above = topology[node.parent]
        if above.kind == GRAPH or node.name in above.delegates or (above.kind == _PARALLEL and above.children[0] != node.name):
            return False
        node = above
    return node.name == topology.root.name
