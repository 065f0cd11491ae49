"""Starts processes, and makes room for those whose resources are not free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from actors.interfaces.deployment_events import tell_event
from actors.layers.trees.process_groups import ProcessGroup
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.worker_process import AgentProcess, ProcessSource, WorkerProcess
from runtime.cluster.rules.process_choice import least_used

MAKE_ROOM_S = 0.5
"""Time between two idle processes that are ended for one that waits for their resources."""

SLOW_START_S = 5.0
"""If a process is still not up after this long, assume that its resources were taken and free some."""


class ProcessStarter:
    """Starts the processes of a pool.

    A process that waits for resources gets those of idle ones of the same kind, which are ended one after the other.
    """

    def __init__(self, source: ProcessSource, table: ProcessTable) -> None:
        self._source = source
        self._table = table

    def start(self, group: ProcessGroup | None, *, is_further: bool = False) -> WorkerProcess:
        """Begin to start a process for a group, or with None one for any agent.

        Args:
            is_further: of a replica beyond those that the agent always has, which waits for a node until there is room.
        """

        async def start() -> AgentProcess:
            if worker.makes_room and not await self._source.is_free(group):
                worker.lacks_resources = True
                self._make_room()
            return await self._source.start(group, node)

        node = self._table.node_for_process() if group is None else ""
        worker = self._add(start(), group, node, makes_room=group is not None and not is_further)
        return worker

    async def start_spare(self) -> WorkerProcess | None:
        """Begin to start a process for which no agent waits; None if there is no room for one."""
        if self._table.limits.claims and not await self._source.is_free(None, is_spare=True):
            return None
        node = self._table.node_for_process()
        return self._add(self._source.start(None, node, is_spare=True), None, node)

    async def has_room(self) -> bool:
        """Whether a further process for any agent would start at once."""
        return not self._table.limits.claims or await self._source.is_free(None)

    def _add(
        self, start: Coroutine[Any, Any, AgentProcess], group: ProcessGroup | None, node: str, *, makes_room: bool = False
    ) -> WorkerProcess:
        worker = WorkerProcess(asyncio.create_task(start), group, node, makes_room=makes_room)
        self._table.workers.append(worker)
        worker.started.add_done_callback(_tell_started)
        return worker

    async def started(self, worker: WorkerProcess) -> AgentProcess:
        """The process, as soon as it runs. Raises as `ProcessSource.start`."""
        while worker.makes_room and not worker.started.done():
            await asyncio.wait({worker.started}, timeout=MAKE_ROOM_S if worker.lacks_resources else SLOW_START_S)
            if not worker.started.done():
                self._make_room()
        # Shielded, because several activations may wait for the same process.
        return await asyncio.shield(worker.started)

    def _make_room(self) -> None:
        """End the process with resources of its own that is idle for longest, if there is one."""
        table = self._table
        loads = [(worker, worker.load(table.wanted)) for worker in table.workers if worker.is_own and worker.agents]
        idle = [(worker, load) for worker, load in loads if not load.in_use]
        if idle:
            worker, _ = idle[least_used([load for _, load in idle])]
            table.passivate(worker.idle(table.wanted))
            table.end_process(worker)


def _tell_started(started: asyncio.Task[AgentProcess]) -> None:
    if not started.cancelled() and started.exception() is None:
        tell_event("process started", "%s has been started for agents", started.result().name, level=logging.INFO)
