"""Which agents an LLM agent may transfer the turn to (semantics.md section 3)."""

from __future__ import annotations

import msgspec

from actors.errors.hints import did_you_mean
from actors.messages.topology import AgentNode, Topology

TRANSFER_TOOL = "transfer_to_agent"
FIND_TOOL = "find_agents"


class Target(msgspec.Struct, frozen=True, gc=False):
    """An agent that a turn can be transferred to."""

    name: str
    description: str = ""
    is_parent: bool = False


def transfer_targets(topology: Topology, name: str) -> tuple[Target, ...]:
    """The targets of an agent, in this order: its children, its parent, its siblings, each only if it is allowed.

    A delegate is no target, and has none above it.
    """
    node = topology[name]
    if not node.is_llm:
        return ()
    targets = [_target(topology[child]) for child in node.children if child not in node.delegates]
    parent = topology[node.parent] if node.parent is not None else None
    if parent is not None and parent.is_llm and name not in parent.delegates:
        if not node.disallow_transfer_to_parent:
            targets.append(_target(parent, is_parent=True))
        if not node.disallow_transfer_to_peers:
            targets += [_target(topology[peer]) for peer in parent.children if peer != name and peer not in parent.delegates]
    return tuple(targets)


def _target(node: AgentNode, *, is_parent: bool = False) -> Target:
    return Target(node.name, node.description, is_parent)


def route_refusal(topology: Topology, wanted: str, scope: str | None) -> str | None:
    """Why the Runner cannot route a turn to `wanted`; None when it can.

    Args:
        scope: the child of a workflow agent, or the agent that runs as a tool; a transfer has to stay at or below it.
    """
    if topology.find(wanted) is None:
        return f"no agent of that name is in the tree.{did_you_mean(wanted, topology.names())}"
    if scope is None and topology.is_beside(wanted):
        return "it is used as a tool, and answers only the agents that have it"
    if scope is not None and not topology.is_below(wanted, scope):
        return f"here a transfer stays at or below {scope!r}, which is run by a workflow or asked as a tool"
    for node in topology.lineage(wanted):
        if node.name == scope:
            break
        if topology.is_delegate(node.name):
            return f"{node.name!r} works for the calls of {node.parent!r}, and takes no conversation over"
    return None
