"""The processes in which the agents of a Runner live.

Agents are activated by the first message to them and passivated when they are idle. All is decided on the Runner's event loop,
between one `await` and the next. An agent is passivated only when it owes no reply and no caller waits for a link to it, and its
link refuses messages from that moment on: so no message ever reaches a process after its agent has left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from actors.errors import ActorLostError
from actors.interfaces.transport import AgentDirectory, Link
from actors.layers.trees.process_groups import ProcessGroup, Replica, replica_of, scaled_group
from actors.layers.updates.rules import Marks
from actors.messages.codec import encode
from actors.messages.protocol.base import Stop
from actors.messages.session import SessionKey
from runtime.cluster.cluster_watch import ClusterWatch, Nodes
from runtime.cluster.packing.definitions import PackedTree
from runtime.cluster.processes.activation import Activation, Passivation
from runtime.cluster.processes.mcp_servers import StartedMcpServers
from runtime.cluster.processes.moving import Moving
from runtime.cluster.processes.placing import shared_needs
from runtime.cluster.processes.process_table import PoolLimits, ProcessTable
from runtime.cluster.processes.scaling import ScaledReplicas
from runtime.cluster.processes.starting import ProcessStarter, SpareProcesses
from runtime.cluster.processes.worker_process import HostedAgent, ProcessSource
from runtime.cluster.rules.nodes import Node, cluster_size, usable
from runtime.cluster.rules.process_choice import host_limit, memory_share
from runtime.engine.deployment import obstacles
from runtime.settings import Settings


class Pool:
    """A bounded set of processes that agents share: activation, passivation, spare processes, and the loss of processes.

    Attributes:
        table: the processes and the agents in them.
    """

    def __init__(self, source: ProcessSource, limits: PoolLimits) -> None:
        self.table = ProcessTable(limits)
        starter = ProcessStarter(source, self.table)
        self.spares = SpareProcesses(self.table, starter)
        self.passivation = Passivation(self.table, self.spares)
        self._activation = Activation(self.table, starter, self.spares, self.passivation)
        self._scaled = ScaledReplicas(self.table, self._activation, self.spares)
        self._moving = Moving(self.table, starter, self.spares, self._activation)

    def link(
        self, replica: Replica, group: ProcessGroup | None = None, *, alone: bool = False
    ) -> Coroutine[Any, Any, HostedAgent]:
        """The link to an agent, which is activated if it does not live.

        Args:
            group: the process group of the agent; None if it can live in any process.
            alone: it lives once more, in a process of its own, until it has replied.

        Raises:
            ActorLostError: its process was lost as soon as it was started.
            PlacementError: no node has room for it.
            ClusterError: its definition cannot be loaded.
        """
        return self._activation.alone(replica, group) if alone else self._activation.link(replica, group)

    def link_for(
        self, agent: str, group: ProcessGroup | None, key: SessionKey, mark: str = "", *, alone: bool = False
    ) -> Coroutine[Any, Any, HostedAgent]:
        """The link to the replica of an agent that serves a session: see `link`."""
        if self.table.limits.claims:
            group = scaled_group(group, agent)
        return self.link(self.serving(agent, group, key, mark), group, alone=alone)

    def serving(self, agent: str, group: ProcessGroup | None, key: SessionKey, mark: str = "") -> Replica:
        """The replica of an agent that serves a session: always the same, where their number does not go by load."""
        if group is None:
            return Replica(agent, 0, mark)
        if group.placement.most_replicas == group.placement.replicas:
            return Replica(agent, replica_of(key, group.placement.replicas), mark)
        return self._scaled.serving(agent, group, key, mark)

    def start_spares(self, most: int | None = None) -> None:
        """Begin to start the spare processes that are missing, and end those that are too many: see SpareProcesses."""
        self.spares.start_spares(at_once=True, most=most)

    async def spares_started(self) -> None:
        """Wait until spare processes that are being started are ready."""
        if self.spares.starting is not None:
            await asyncio.wait((self.spares.starting,))

    def adapt(self, limits: PoolLimits, nodes: Sequence[Node]) -> None:
        """Go by other limits, on a cluster with these nodes.

        Args:
            nodes: among equal ones the first gets the next process.
        """
        table = self.table
        may_spread = limits.max_processes > table.limits.max_processes
        table.limits, table.nodes = limits, nodes
        if may_spread:
            self.passivation.thin_out()
        self._moving.begin()
        self.spares.adapt()

    def drain(self, name: str, why: str) -> None:
        """Replace the process with that name: see ProcessTable.drain."""
        for worker in self.table.workers:
            process = worker.process()
            if process is not None and process.name == name:
                self.table.drain(worker, why)
                self.spares.start_spares()
                return

    async def close(self) -> None:
        """Stop every agent, and end all processes."""
        table = self.table
        table.is_open = False
        background = (
            self.spares.starting,
            self.passivation.watching,
            self._moving.under_way,
            *self._scaled.starting,
            *table.activating.values(),
        )
        tasks = [task for task in background if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._stop(agent) for agent in table.all_agents()))
        workers = [*table.workers, *table.draining]
        for worker in workers:
            table.lose(worker)
        # A process that is still starting can be killed only when it runs.
        await asyncio.gather(*(worker.started for worker in workers), return_exceptions=True)

    async def _stop(self, agent: HostedAgent) -> None:
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self.table.limits.stop_timeout_s):
                await agent.send(encode(Stop()))


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
