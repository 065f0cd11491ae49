"""Makes agents live on the cluster when the first message is sent to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any
from zlib import crc32

from actors.interfaces.transport import AgentDirectory, Link
from actors.layers.trees.process_groups import Replica
from actors.layers.updates.rules.marks import Marks
from actors.messages.session import SessionKey
from runtime.cluster.cluster_watch import ClusterWatch, Nodes
from runtime.cluster.packing.definitions import PackedTree
from runtime.cluster.processes.mcp_servers import StartedMcpServers
from runtime.cluster.processes.placing import shared_needs
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.process_table import PoolLimits
from runtime.cluster.processes.worker_process import ProcessSource
from runtime.cluster.rules.nodes import cluster_size, usable
from runtime.cluster.rules.process_choice import host_limit, memory_share
from runtime.engine.deployment import obstacles
from runtime.settings import Settings


class RayDirectory:
    """Implements `actors.interfaces.transport.Directory` in the Runner's process: agents live in Ray actors.

    Args:
        nodes: of the cluster; it is closed with the directory.
        servers: the MCP servers of the agents, which end with them.

    Attributes:
        obstacles: see Directory.
        limit: how many processes with agents there may be on the cluster as it is, and why.
    """

    def __init__(
        self,
        tree: PackedTree,
        source: ProcessSource,
        settings: Settings,
        nodes: ClusterWatch,
        servers: StartedMcpServers | None = None,
    ) -> None:
        self._nodes = nodes
        self._servers = servers
        self.obstacles: Mapping[str, tuple[str, str]] = obstacles(tree.models)
        self._groups = tree.process_groups
        self._root = tree.definitions.topology.root.name
        self._agents = len(tree.definitions) - sum(group.placement.asks for group in tree.process_groups.values())
        self._settings = settings
        self._follows_nodes = False
        self._pool = Pool(source, self._limits(nodes.now))

    def _limits(self, nodes: Nodes) -> PoolLimits:
        settings, needs = self._settings, shared_needs(self._settings)
        size = cluster_size(usable(nodes, needs))
        self.limit = host_limit(settings.max_live_agents, *size, settings.runners)
        return PoolLimits(
            max_processes=self.limit.hosts,
            spares=settings.spare_hosts,
            agents=self._agents,
            idle_timeout_s=settings.idle_timeout_s,
            stop_timeout_s=settings.stop_timeout_s,
            memory_share=memory_share(size.memory_bytes / settings.runners, self.limit.hosts) if size.memory_bytes else 0,
            needs=needs,
            claims=settings.claimed_cpus > 0,
        )

    def _adapt(self, nodes: Nodes) -> None:
        # In an order of its own, so that several Runners do not all begin with the same node.
        self._pool.adapt(self._limits(nodes), sorted(nodes, key=lambda node: crc32(f"{os.getpid()} {node.id}".encode())))

    def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Coroutine[Any, Any, Link]:
        """The link to the agent's replica that serves a session, which is activated if it does not live."""
        return self._pool.link_for(agent, self._groups.get(agent), key, alone=alone)

    def of_version(self, tree: PackedTree, marks: Marks) -> AgentDirectory:
        """A directory of the agents of a later version."""
        if marks:
            self._pool.spares.replace_loaded()
        return _OfVersion(self._pool, tree, marks)

    def retain(self, is_needed: Callable[[Replica], bool]) -> None:
        """End the agents that are idle and needed no more, and processes in which none is left."""
        self._pool.passivation.retain(is_needed)

    def start_spares(self, most: int | None = None) -> None:
        """Begin to start spare processes, `most` at most, and to follow the nodes of the cluster."""
        self._pool.start_spares(most)
        if not self._follows_nodes:
            self._follows_nodes = True
            self._nodes.subscribe(self._adapt)
            self._adapt(self._nodes.now)

    async def spares_started(self) -> None:
        """Wait until spare processes that are being started are ready."""
        await self._pool.spares_started()

    async def load_spares(self) -> None:
        """Have spare processes load the code of the root, if it may live in one: most turns begin there, or use its modules."""
        root = self._root
        if root in self._groups and self._groups[root].placement.asks:
            return
        await self._pool.spares.load(root)

    def replace_loaded_spares(self) -> None:
        """Have spare processes that have loaded no code take the place of those that have."""
        self._pool.spares.replace_loaded()

    def replace(self, name: str, why: str) -> None:
        """Replace a process that is of no use for further runs. `why`: ends a sentence about it."""
        self._pool.drain(name, why)

    def drop_link(self, agent: str, link: Link) -> None:
        """End the process of an agent that is dead or does not answer; the next `link` activates the agent in another."""
        self._pool.table.drop_link(link)

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live, by name; of replicas from the second on by `name/1` and so on."""
        return [(str(replica), link) for replica, link in self._pool.table.live()]

    def counts(self) -> Mapping[str, int]:
        """The numbers of processes, and of agents that were activated and passivated."""
        return self._pool.table.counts()

    def losses(self) -> Mapping[str, int]:
        """The number of times that the process of an agent was lost, by the names that `live` has."""
        return {str(replica): count for replica, count in self._pool.table.losses.items()}

    def activations(self) -> Mapping[str, int]:
        """The number of times that each agent was activated, by the names that `live` has."""
        return {str(replica): times for replica, times in self._pool.table.activations.items()}

    def spare_pids(self) -> Sequence[int]:
        """The process ids of processes in which no agent lives."""
        return self._pool.table.spare_pids()

    async def close(self) -> None:
        """Stop every agent's actor, and end the processes."""
        self._nodes.close()
        await self._pool.close()
        if self._servers is not None:
            await self._servers.close()


class _OfVersion:
    """Implements `AgentDirectory` for the agents of a later version, in the processes of the same pool."""

    def __init__(self, pool: Pool, tree: PackedTree, marks: Marks) -> None:
        self._pool = pool
        self._groups = tree.process_groups
        self._marks = marks
        self.obstacles: Mapping[str, tuple[str, str]] = obstacles(tree.models)

    def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Coroutine[Any, Any, Link]:
        """The link to the agent's replica that serves a session: see RayDirectory."""
        return self._pool.link_for(agent, self._groups.get(agent), key, self._marks.get(agent, ""), alone=alone)

    def drop_link(self, agent: str, link: Link) -> None:
        """End the process of an agent that is dead or does not answer."""
        self._pool.table.drop_link(link)
