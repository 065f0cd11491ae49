"""Passivates agents that were idle for too long, and frees their processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from actors.definitions.tree.process_groups import Replica
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.spares import SpareProcesses
from runtime.cluster.processes.worker_process import HostedAgent
from runtime.cluster.rules.node_choice import surplus


class Passivation:
    """Watches the agents that live, as long as there are any.

    Attributes:
        watching: looks for idle agents in the background; None before the first activation.
    """

    def __init__(self, table: ProcessTable, spares: SpareProcesses) -> None:
        self._table = table
        self._spares = spares
        self.watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin to look for idle agents, if that has not begun."""
        if self._table.is_open and (self.watching is None or self.watching.done()):
            self.watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        timeout_s = self._table.limits.idle_timeout_s
        while self._table.agents:
            first_s = min(agent.used_s for agent in self._table.agents.values()) + timeout_s
            await asyncio.sleep(max(first_s - time.monotonic(), timeout_s / 10))
            self.passivate_idle()

    def passivate_idle(self) -> None:
        """Passivate the agents that were idle for too long. A process that gets empty becomes a spare, or ends."""
        until_s = time.monotonic() - self._table.limits.idle_timeout_s
        self._passivate(lambda agent: agent.used_s <= until_s)

    def retain(self, is_needed: Callable[[Replica], bool]) -> None:
        """Passivate the agents that are needed no more, since an update has changed or removed them."""
        self._table.has_versions = True
        self._passivate(lambda agent: not is_needed(agent.replica))

    def thin_out(self) -> None:
        """Passivate idle agents of full processes, since there may be more processes now, which start when they are used."""
        table = self._table
        workers = table.in_use()
        numbers = surplus([len(worker.agents) for worker in workers], table.limits.max_processes)
        idle = [sorted(worker.idle(table.wanted), key=lambda agent: agent.used_s) for worker in workers]
        leaving = {agent for agents, number in zip(idle, numbers, strict=True) for agent in agents[:number]}
        self._passivate(leaving.__contains__)

    def _passivate(self, leaves: Callable[[HostedAgent], bool]) -> None:
        table = self._table
        for worker in list(table.workers):
            slots = table.passivate([agent for agent in worker.idle(table.wanted) if leaves(agent)])
            if slots and (process := worker.process()) is not None:
                process.passivate(slots)
                self._spares.reuse_or_end(worker)
