"""The nodes of a cluster: which of them can have an agent, where a process of agents starts, and which process moves.

A node fits when it has enough of every resource, and every label is as the selector wants it: `value`, `!value`, `in(a, b)` or
`!in(a, b)`. Resources that others are using at the moment count too, since they may become free.

As nodes come and go:

- A node that is about to leave gets no process, nor does one that lacks what agents ask for.
- A node on which a process was just lost gets one only where no other node can have it: it may be gone, which Ray notices late.
- A node without CPUs, as a head that carries no work, gets one only where no other node can have it.
- A process starts where it adds least to the load: the number of processes against what the node has room for.
- A process moves only if the node that it leaves stays at least as loaded as the one that it comes to. So each move evens out the
  load, none is ever undone by the next one, and a cluster at rest has none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.errors.hints import did_you_mean
from runtime.cluster.rules.process_choice import HOST_BYTES
from runtime.settings import HOSTS_PER_CORE


class DrainNotice(NamedTuple):
    """A node's notice that it leaves: Ray starts nothing new there.

    Attributes:
        deadline_s: when it leaves at the latest, in seconds since the epoch; None: when nothing runs there any more.
    """

    deadline_s: float | None = None


class Node(NamedTuple):
    """A machine of the cluster that is alive.

    Attributes:
        name: by which Ray calls it.
        resources: all that it has, by Ray's names: CPU, GPU, memory in bytes, and custom ones.
        labels: see Ray's labels.
        id: Ray's.
        address: its IP address.
        drain: its notice that it leaves; None without one.
    """

    name: str
    resources: Mapping[str, float]
    labels: Mapping[str, str]
    id: str = ""
    address: str = ""
    drain: DrainNotice | None = None

    @property
    def cpus(self) -> float:
        """The number of CPUs that Ray may use there; 0 on a head that carries no work."""
        return self.resources.get("CPU", 0.0)


class ClusterSize(NamedTuple):
    """What nodes have together: memory for processes, as their containers allow, without Ray's object stores; and cores."""

    memory_bytes: float
    cores: float


def cluster_size(nodes: Iterable[Node]) -> ClusterSize:
    """The size of these nodes."""
    counted = list(nodes)
    return ClusterSize(sum(node.resources.get("memory", 0.0) for node in counted), sum(node.cpus for node in counted))


_RAY_NAMES = ("CPU", "GPU", "memory", "object_store_memory", "node:", "ray.io/")
"""Names, or beginnings of names, that Ray itself gives: they are no misspellings, and are not suggested."""


class Needs(NamedTuple):
    """What an agent asks for: amounts by Ray's names of resources (CPU, GPU, memory in bytes, custom), and label selectors."""

    resources: Mapping[str, float]
    labels: Mapping[str, str]

    def __str__(self) -> str:
        wanted = [*(_amount(name, number) for name, number in self.resources.items()), *map(_selector, self.labels.items())]
        return ", ".join(wanted) or "nothing"


def refusal(needs: Needs, nodes: Sequence[Node]) -> str | None:
    """Why no node can ever have the agent, with what the nearest one lacks; None when a node can."""
    if not nodes:
        return "and there is no node"
    nearest, lacking = min(((node, _lacking(needs, node)) for node in nodes), key=lambda each: len(each[1]))
    if not lacking:
        return None
    which = "the only node" if len(nodes) == 1 else f"the nearest of {len(nodes)} nodes"
    hint = _suggestion(needs.resources, (name for node in nodes for name in node.resources))
    hint = hint or _suggestion(needs.labels, (name for node in nodes for name in node.labels))
    return f"and {which}, {nearest.name}, has {' and '.join(lacking)}{hint and '.' + hint}"


def fits(needs: Needs, node: Node) -> bool:
    """True when a node has all that is asked for, in total."""
    return not _lacking(needs, node)


def _lacking(needs: Needs, node: Node) -> list[str]:
    """For each need that a node does not meet, in words, what it has instead."""
    resources = [
        f"{_amount(name, node.resources[name])} in all" if name in node.resources else f"no {name}"
        for name, number in needs.resources.items()
        if number and number > node.resources.get(name, 0)
    ]
    labels = [
        f"label {name}={node.labels[name]}" if name in node.labels else f"no label {name}"
        for name, selector in needs.labels.items()
        if not selects(selector, node.labels.get(name))
    ]
    return [*resources, *labels]


def selects(selector: str, label: str | None) -> bool:
    """True when a selector admits a node with that label; None stands for a node without a label of the name."""
    wanted = selector.removeprefix("!")
    inside = wanted.removeprefix("in(").removesuffix(")") if wanted.startswith("in(") else wanted
    is_one_of = label in [each.strip() for each in inside.split(",")]
    return is_one_of != selector.startswith("!")


def _suggestion(wanted: Iterable[str], known: Iterable[str]) -> str:
    """A hint for the first unknown name that resembles a known one; "" without one."""
    custom = {name for name in known if not name.startswith(_RAY_NAMES)}
    unknown = (name for name in wanted if name not in {*custom, *_RAY_NAMES})
    return next((hint for name in unknown if (hint := did_you_mean(name, custom))), "")


def _amount(name: str, number: float) -> str:
    return f"{number:g} {name}" if name != "memory" else f"{number / 1024**3:.3g} GiB of memory"


def _selector(label: tuple[str, str]) -> str:
    return f"label {label[0]}={label[1]}"


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
