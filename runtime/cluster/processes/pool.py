"""The processes in which the agents of a Runner live.

Agents are activated by the first message to them and passivated when they are idle. All is decided on the Runner's event loop,
between one `await` and the next. An agent is passivated only when it owes no reply and no caller waits for a link to it, and its
link refuses messages from that moment on: so no message ever reaches a process after its agent has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from actors.errors import ActorLostError
from actors.layers.trees.process_groups import ProcessGroup, Replica, replica_of, scaled_group
from actors.messages.codec import encode
from actors.messages.protocol.lifecycle import Stop
from actors.messages.session import SessionKey
from runtime.cluster.processes.activation import Activation, Passivation
from runtime.cluster.processes.moving import Moving
from runtime.cluster.processes.process_table import PoolLimits, ProcessTable
from runtime.cluster.processes.scaling import ScaledReplicas
from runtime.cluster.processes.starting import ProcessStarter, SpareProcesses
from runtime.cluster.processes.worker_process import HostedAgent, ProcessSource
from runtime.cluster.rules.nodes import Node


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
