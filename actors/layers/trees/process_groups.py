"""Which agents share a process, and which replica of an agent serves a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.definitions.agents.base import Placement
from actors.errors import AgentTreeError
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.rules.sharding import heaviest


@dataclass(frozen=True)
class ProcessGroup:
    """Agents that share a process: a leader, and the agents below it that are placed with `colocate="parent"`.

    Attributes:
        leader: the agent whose placement decides.
        placement: the leader's.
    """

    leader: str
    placement: Placement

    def has_own_process(self, replica: int) -> bool:
        """True when a replica lives in a process that is started for it, and not in one of the pool."""
        return self.placement.asks or replica >= self.placement.replicas


SCALED = Placement(max_replicas=64)
"""Of an agent that asks for nothing, where its processes may have nodes added."""


def scaled_group(group: ProcessGroup | None, agent: str) -> ProcessGroup:
    """The group of an agent where agents that ask for nothing get replicas when they are busy.

    Args:
        group: its group otherwise; None if it can live in any process.
    """
    if group is None:
        return ProcessGroup(agent, SCALED)
    return ProcessGroup(group.leader, SCALED) if group.placement.is_default else group


class Replica(NamedTuple):
    """One of the actors that serve an agent, numbered from 0.

    Attributes:
        mark: of an agent that an update has changed, the name of the version that has brought it as it is; else "".
    """

    agent: str
    replica: int = 0
    mark: str = ""

    @property
    def definition(self) -> str:
        """The name of its definition: the agent's, and its mark."""
        return f"{self.agent}@{self.mark}" if self.mark else self.agent

    def __str__(self) -> str:
        return f"{self.definition}/{self.replica}" if self.replica else self.definition


def process_groups(topology: Topology, placements: Mapping[str, Placement]) -> dict[str, ProcessGroup]:
    """The group of every agent whose placement, or whose leader's placement, asks for anything.

    Agents that are left out may live in any process of the pool.

    Args:
        placements: of all agents, parents before their children.

    Raises:
        AgentTreeError: an agent is placed with its parent and has none.
    """
    groups: dict[str, ProcessGroup] = {}
    for name, placement in placements.items():
        if placement.is_default:
            continue
        if placement.colocate is None:
            groups[name] = ProcessGroup(name, placement)
        elif (node := topology[name]).parent is None:
            why = "it is the root" if node.name == topology.root.name else "it stands beside the tree, as a tool of others"
            raise AgentTreeError(
                f"agent {node.name!r} has no parent whose process it could share: {why}. "
                "colocate='parent' is for agents below another"
            )
        else:
            groups[node.name] = groups.get(node.parent) or ProcessGroup(node.parent, placements[node.parent])
    return groups


def replica_of(key: SessionKey, replicas: int) -> int:
    """The number of the replica that serves a session, from 0 and below `replicas`: the same in every process."""
    return replica_among(key, range(replicas))


def replica_among(key: SessionKey, numbers: Sequence[int]) -> int:
    """The number of the replica that serves a session, one of `numbers`."""
    if len(numbers) == 1:
        return numbers[0]
    # Without a word of its own in the key, all sessions of one Runner would have the same replica where both numbers are equal.
    return heaviest(SessionKey(f"replica\0{key.app}", key.user, key.session), numbers)
