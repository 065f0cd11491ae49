"""In whose process an agent lives, and what that asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from actors.definitions.agents.base import Placement
from actors.errors import AgentTreeError
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.rules.capacity.process_choice import replica_of


@dataclass(frozen=True)
class ProcessGroup:
    """Where an agent lives.

    Attributes:
        anchor: the agent in whose process it lives: itself, or the first one above it that does not live with its parent.
        placement: the anchor's.
    """

    anchor: str
    placement: Placement


class Replica(NamedTuple):
    """One of the actors by which an agent is served."""

    agent: str
    replica: int = 0

    def __str__(self) -> str:
        return f"{self.agent}/{self.replica}" if self.replica else self.agent


def homes(topology: Topology, placements: Mapping[str, Placement]) -> dict[str, ProcessGroup]:
    """The homes of those agents whose own placement, or that of whom they live with, says anything.

    Raises:
        AgentTreeError: an agent is to live with its parent and has none.
    """
    found: dict[str, ProcessGroup] = {}
    anywhere = Placement()
    # Parents come before their children.
    for node in topology.nodes:
        placement = placements[node.name]
        if placement.colocate is None:
            # Ten times as fast as pydantic compares, of which a tree of ten thousand agents would take 40 ms.
            if placement.__dict__ != anywhere.__dict__:
                found[node.name] = ProcessGroup(node.name, placement)
        elif node.parent is None:
            why = "it is the root" if node is topology.root else "it stands beside the tree, as a tool of others"
            raise AgentTreeError(
                f"agent {node.name!r} has no parent whose process it could share: {why}. "
                "colocate='parent' is for agents below another"
            )
        else:
            found[node.name] = found.get(node.parent) or ProcessGroup(node.parent, placements[node.parent])
    return found


def place_of(homes: Mapping[str, ProcessGroup], agent: str, key: SessionKey) -> Replica:
    """The actor by which an agent serves a session."""
    home = homes.get(agent)
    return Replica(agent, replica_of(key, home.placement.replicas) if home is not None else 0)
