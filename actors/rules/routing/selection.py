"""Which agent gets the next user message (seed 000; semantics.md section 1).

Everything that decides it stands here. The scan over the log is given as the authors by recency, the most recent first
and each once: the first transferable one among them is what a scan of all events, newest to oldest, would find.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.messages.topology import AgentNode, Topology

logger = logging.getLogger(__name__)


def select_agent(topology: Topology, authors: Iterable[str], caller: str = "") -> str:
    """The agent to run.

    Args:
        topology: the parent map.
        authors: authors of the log without `user`, the most recent first.
        caller: who made the call that the message answers; "" when it answers none.

    Returns:
        The caller, if it is in the tree; else the most recent author that is transferable; else the root.
    """
    if caller and topology.find(caller) is not None and not topology.is_beside(caller):
        return caller
    for author in authors:
        if topology.find(author) is None:
            logger.warning("author %r of the log is not in the agent tree: looking at older events", author)
        elif is_transferable(topology, author):
            return author
    return topology.root.name


def is_transferable(topology: Topology, name: str) -> bool:
    """True when control may stay with the agent: it and all above it are LLM agents that may hand back to their parent.

    An agent that is a tool is never: the user does not talk to it.
    """
    top: AgentNode | None = None
    for node in topology.lineage(name):
        if not node.is_llm or node.disallow_transfer_to_parent:
            return False
        top = node
    return top is topology.root


def deciding(topology: Topology, authors: Iterable[str]) -> tuple[str, ...]:
    """Those of the authors on whom a selection depends: the first that is transferable, and before it those that are not known.

    In one session hundreds of agents may have spoken; what a turn is told of them does not grow with their number.
    """
    found = []
    for author in authors:
        is_known = topology.find(author) is not None
        is_chosen = is_known and is_transferable(topology, author)
        if is_chosen or not is_known:
            found.append(author)
        if is_chosen:
            break
    return tuple(found)
