"""Random parent maps."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from actors.messages.topology import AgentNode, Topology

KINDS = ["llm", "llm", "llm", "custom", "sequential", "parallel", "loop"]


@st.composite
def topologies(draw: st.DrawFn, *, min_size: int = 1, max_size: int = 8) -> Topology:
    """A tree of agents `n0` (the root), `n1`, … of any kinds and flags; parents stand before their children."""
    size = draw(st.integers(min_size, max_size))
    nodes: list[AgentNode] = []
    for number in range(size):
        nodes.append(
            AgentNode(
                name=f"n{number}",
                kind=draw(st.sampled_from(KINDS)),
                description=draw(st.sampled_from(["", f"does {number}"])),
                parent=f"n{draw(st.integers(0, number - 1))}" if number else None,
                disallow_transfer_to_parent=draw(st.integers(0, 3)) == 0,
                disallow_transfer_to_peers=draw(st.booleans()),
            )
        )
    return Topology(
        tuple(
            msgspec.structs.replace(node, children=tuple(child.name for child in nodes if child.parent == node.name))
            for node in nodes
        )
    )
