"""On which node a process of agents starts, and which process moves when nodes come and go.

- A node that is about to leave gets no process, nor does one that lacks what agents ask for.
- A node on which a process was just lost gets one only where no other node can have it: it may be gone, which Ray notices late.
- A node without CPUs, as a head that carries no work, gets one only where no other node can have it.
- A process starts where it adds least to the load: the number of processes against what the node has room for.
- A process moves only if the node that it leaves stays at least as loaded as the one that it comes to. So each move evens out the
  load, none is ever undone by the next one, and a cluster at rest has none.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from runtime.cluster.rules.nodes import Node
from runtime.cluster.rules.placement import Needs, fits
from runtime.cluster.rules.process_choice import HOST_BYTES
from runtime.settings import HOSTS_PER_CORE

NOTHING = Needs({}, {})
"""What agents ask for that may live anywhere."""


class Move(NamedTuple):
    """A process leaves one node, by its id, for another one."""

    source: str
    target: str


def usable(nodes: Sequence[Node], needs: Needs = NOTHING) -> list[Node]:
    """The nodes on which processes with such needs may start."""
    staying = [node for node in nodes if node.drain is None and fits(needs, node)]
    return [node for node in staying if node.cpus] or staying


def node_for(nodes: Sequence[Node], processes: Mapping[str, int], needs: Needs = NOTHING, suspects: Container[str] = ()) -> str:
    """The id of the node on which the next process starts; "": there is none for it.

    Args:
        nodes: all of them. Among equals the first is taken.
        processes: how many there are, by ids of nodes.
        suspects: the ids of nodes that may be gone.
    """
    load = {node.id: _load_with_one_more(node, processes, needs) for node in usable(nodes, needs)}
    return min(load, key=lambda name: (name in suspects, load[name]), default="")


def next_move(nodes: Sequence[Node], processes: Mapping[str, int], needs: Needs = NOTHING) -> Move | None:
    """The move that makes the load more even; None when it is as even as moves can make it.

    Processes on nodes that are about to leave are no part of this: they all have to go.

    Args:
        nodes, processes, needs: see `node_for`. Only processes that may move count.
    """
    places = usable(nodes, needs)
    ids = {node.id for node in places}
    if not places:
        return None
    target = min(places, key=lambda node: _load_with_one_more(node, processes, needs))
    for node in nodes:
        if node.drain is None and node.id not in ids and processes.get(node.id):
            # It was the only one when the process started.
            return Move(node.id, target.id)
    source = max(places, key=lambda node: _load_with_one_less(node, processes, needs))
    if source.id == target.id or _load_with_one_more(target, processes, needs) > _load_with_one_less(source, processes, needs):
        return None
    return Move(source.id, target.id)


def surplus(agents: Sequence[int], limit: int) -> list[int]:
    """The number of agents in each process that may leave it, so that others start for them.

    Args:
        agents: how many live in each.
        limit: how many processes there may be.
    """
    share = max(1, sum(agents) // limit)
    return [max(0, number - share) for number in agents]


def _load_with_one_more(node: Node, processes: Mapping[str, int], needs: Needs) -> float:
    return (processes.get(node.id, 0) + 1) / _room(node, needs)


def _load_with_one_less(node: Node, processes: Mapping[str, int], needs: Needs) -> float:
    return (processes.get(node.id, 0) - 1) / _room(node, needs)


def _room(node: Node, needs: Needs) -> float:
    """The number of processes that a node has room for, which may be a fraction."""
    by_memory = node.resources.get("memory", 0.0) / 2 / HOST_BYTES
    by_needs = (node.resources[name] / number for name, number in needs.resources.items() if number)
    return max(1.0, min(HOSTS_PER_CORE * (node.cpus or 1), by_memory, *by_needs))
