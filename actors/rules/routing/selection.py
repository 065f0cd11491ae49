"""Which agent gets the next user message (semantics.md section 1).

Selection reads authors only. They are given by recency, the most recent first and each once: the first transferable one among
them is the one that a scan of all events, newest to oldest, would find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from actors.messages.event import USER
from actors.messages.topology import LLM, AgentNode, Topology
from actors.messages.turn_info import PassedOver
from actors.rules.routing.branches import TOOL_MARK


class Selection(msgspec.Struct, frozen=True, gc=False):
    """The agent to run, and the authors that were passed over because no agent of the tree has their name."""

    agent: str
    unknown_authors: tuple[str, ...] = ()


def is_selectable(author: str) -> bool:
    """The author is an agent, and not marked as one that has spoken as a tool."""
    return author != USER and not author.startswith(TOOL_MARK)


def selectable(authors: Iterable[str]) -> Iterator[str]:
    """The authors that are agents, without those marked that have spoken as tools."""
    return filter(is_selectable, authors)


def select_agent(topology: Topology, authors: Iterable[str], caller: str = "") -> Selection:
    """Select the agent of a turn.

    Args:
        topology: the parent map.
        authors: authors of the log without `user`, the most recent first.
        caller: the agent that made the call which the message answers; "" when the message answers none.

    Returns:
        The caller, if it is in the tree; else the most recent author that is transferable; else the root.
    """
    if caller and may_answer_for(topology, caller):
        return Selection(caller)
    unknown: list[str] = []
    for author in authors:
        found = obstacle(topology, author)
        if found is None:
            return Selection(author, tuple(unknown))
        if found.because == "unknown":
            unknown.append(author)
    return Selection(topology.root.name, tuple(unknown))


def may_answer_for(topology: Topology, caller: str) -> bool:
    """True for an agent of the tree, which gets the answers to its calls."""
    return bool(caller) and topology.find(caller) is not None and not topology.is_beside(caller)


def obstacle(topology: Topology, name: str) -> PassedOver | None:
    """Why an agent gets no message for having spoken last; None when it may."""
    node = topology.find(name)
    if node is None:
        return PassedOver(agent=name, because="unknown")
    below: AgentNode | None = None
    while True:
        if node.kind != LLM:
            return PassedOver(agent=name, because="kind", by=node.name)
        if node.disallow_transfer_to_parent:
            return PassedOver(agent=name, because="disallowed", by=node.name)
        if below is not None and below.name in node.delegates:
            return PassedOver(agent=name, because="delegate", by=below.name)
        if node.parent is None:
            break
        below, node = node, topology[node.parent]
    if node.name != topology.root.name:
        return PassedOver(agent=name, because="beside", by=name)
    return None


def supervisor(topology: Topology, agent: str) -> AgentNode | None:
    """The agent that runs another one; None: no agent does, so messages of the user may reach it."""
    return next((each for each in topology.lineage(agent) if each.name != agent and not each.is_llm), None)


def address_obstacle(topology: Topology, agent: str, *, works_alone: bool = False) -> str | None:
    """Why no message may be addressed to an agent; None when it may. Raises UnknownAgentError.

    Args:
        works_alone: it works alone here, so that it does not matter whether another agent runs it elsewhere.
    """
    above = supervisor(topology, agent)
    if above is not None and not works_alone:
        return f"agent {agent!r} is run by {above.name!r}: a message to it is addressed to that one"
    if topology.is_delegate(agent):
        return f"agent {agent!r} works for the calls of {topology[agent].parent!r}, and gets no message"
    return None


def deciding(topology: Topology, authors: Iterable[str]) -> tuple[str, ...]:
    """The authors that a selection depends on: the first transferable one, and the unknown ones before it.

    Hundreds of agents may have spoken in one session; the message that carries these authors does not grow with their number.
    """
    found = []
    for author in authors:
        passed = obstacle(topology, author)
        if passed is None or passed.because == "unknown":
            found.append(author)
        if passed is None:
            break
    return tuple(found)
