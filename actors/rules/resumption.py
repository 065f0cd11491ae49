"""Where a paused turn goes on when its question is answered (semantics.md section 4).

A run that was paused is not repeated from its start: the turn re-enters the tree where it was, each supervisor at the child
that waits, down to the agent that asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.messages.topology import Topology


def entry(topology: Topology, caller: str, scope: str | None = None) -> str:
    """The agent to run so that the answer reaches `caller`.

    It is the topmost supervisor above the caller, since an LLM agent does not supervise its children: it handed over to them.

    Args:
        scope: look only at this agent and below it.

    Returns:
        The supervisor, or the caller itself when there is none.
    """
    found = caller
    for node in topology.lineage(caller):
        if not node.is_llm:
            found = node.name
        if node.name == scope:
            break
    return found


def child_towards(topology: Topology, parent: str, caller: str) -> str | None:
    """The child of `parent` that is `caller` or has it below; None when the caller is not below the parent."""
    below = caller
    for node in topology.lineage(caller):
        if node.name == parent:
            return below if below != parent else None
        below = node.name
    return None


def through_flows(callers: Sequence[str], progress: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The callers, with the controller of the flow in the place of each that waits in one.

    Args:
        progress: what supervisors noted in the turn before it was paused, by agent; a controller notes who waits as `agents`.
    """
    flows = {agent: controller for controller, noted in progress.items() for agent in noted.get("agents", ())}
    return list(dict.fromkeys(flows.get(caller, caller) for caller in callers))
