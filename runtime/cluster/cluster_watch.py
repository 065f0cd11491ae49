"""Observes the nodes of the cluster, for all that goes by them in a process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from runtime.cluster.ray.nodes import draining_nodes, free_resources, living_nodes
from runtime.cluster.rules.nodes import DrainNotice, Node

logger = logging.getLogger(__name__)

EVERY_S = 1.0
"""Time between two looks. One costs 0.4 ms of CPU on a cluster of three nodes."""

Nodes = tuple[Node, ...]
"""All nodes that are alive, those that are about to leave included, in the order of their ids."""


def cluster_nodes() -> Nodes:
    """Ask Ray for the nodes that are alive now. Raises ConnectionError in a process that is not connected with a Ray."""
    found, deadlines_ms = living_nodes(), draining_nodes()
    return tuple(sorted((_node(each, deadlines_ms.get(each["NodeID"])) for each in found), key=lambda node: node.id))


def _node(told: Mapping[str, Any], deadline_ms: int | None) -> Node:
    drain = None if deadline_ms is None else DrainNotice(deadline_ms / 1_000 if deadline_ms else None)
    return Node(told["NodeName"], told["Resources"], told["Labels"], told["NodeID"], told["NodeManagerAddress"], drain)


class ClusterUse(NamedTuple):
    """The nodes that have CPUs, how many CPUs, and how many of these are claimed."""

    nodes: int
    cpus: float
    claimed_cpus: float


def cluster_use() -> ClusterUse:
    """Ask Ray what there is and what is claimed of it. Raises as `cluster_nodes` does."""
    nodes = [node for node in cluster_nodes() if node.cpus]
    free = free_resources({node.id: node.resources for node in nodes})
    cpus = sum(node.cpus for node in nodes)
    return ClusterUse(len(nodes), cpus, cpus - sum(each.get("CPU", 0.0) for each in free.values()))


class ClusterWatch:
    """The nodes of the cluster, as they are now, and a call for each change.

    It looks at the first use. It looks again and again, in a thread of its own, as soon as there is a subscriber.

    Args:
        read: the nodes that are alive. It may block, and is called in that thread.
        every_s: time between two looks.
    """

    def __init__(self, read: Callable[[], Nodes] = cluster_nodes, every_s: float = EVERY_S) -> None:
        self._read = read
        self._every_s = every_s
        self._now: Nodes | None = None
        self._subscribers: list[tuple[asyncio.AbstractEventLoop, Callable[[Nodes], None]]] = []
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    @property
    def now(self) -> Nodes:
        """The nodes at the last look."""
        if self._now is None:
            self._now = self._read()
        return self._now

    def subscribe(self, callback: Callable[[Nodes], None]) -> None:
        """Have a function called after each change, on the event loop that runs now, until the watch is closed."""
        self._subscribers.append((asyncio.get_running_loop(), callback))
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="nodes", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Look no more. A look that Ray has not answered yet is not waited for, and is not told."""
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(self._every_s):
            try:
                seen = self._read()
            except Exception:
                # Ray's control service is away, which may raise many classes, or Ray has ended. The last look counts until then.
                logger.debug("the nodes of the cluster could not be looked at", exc_info=True)
                continue
            if seen != self._now:
                self._now = seen
                for loop, callback in self._subscribers:
                    self._tell(loop, callback, seen)

    def _tell(self, loop: asyncio.AbstractEventLoop, callback: Callable[[Nodes], None], seen: Nodes) -> None:
        def call() -> None:
            if not self._is_over.is_set():
                callback(seen)

        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: the process ends.
            self.close()
