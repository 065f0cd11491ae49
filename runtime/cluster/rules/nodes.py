"""The nodes of a cluster as plain values, and what can be said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


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
