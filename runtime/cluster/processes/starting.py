"""Starts processes: for agents that wait for one, where room may have to be made, and those that are prepared before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from actors.errors import ActorLostError, ClusterError
from actors.interfaces.telemetry import tell_event
from actors.layers.trees.process_groups import ProcessGroup
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.worker_process import AgentProcess, ProcessSource, WorkerProcess
from runtime.cluster.rules.process_choice import least_used, spares_wanted

logger = logging.getLogger(__name__)


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


ACTIVATIONS_S = 0.5
"""How long the start of a spare waits at most for activations that are under way."""


class SpareProcesses:
    """Keeps as many processes prepared as the limits want, as far as agents without a process could use them.

    Attributes:
        starting: starts spares in the background; None before the first.
    """

    def __init__(self, table: ProcessTable, starter: ProcessStarter) -> None:
        self._table = table
        self._starter = starter
        self.starting: asyncio.Task[None] | None = None
        self._most: int | None = None
        self._further = 0

    def is_ready(self, mark: str = "") -> bool:
        """Whether an empty process is prepared, for agents with that mark."""
        return any(worker.is_ready and worker.takes(mark) for worker in self._table.spares())

    def take_process(self, mark: str = "") -> WorkerProcess:
        """A process without agents, for those with that mark: a prepared one, else one that is starting, else a new one."""
        fit = (worker for worker in self._table.spares() if worker.takes(mark))
        return next(fit, None) or self._starter.start(None)

    def start_spares(self, *, at_once: bool = False, most: int | None = None) -> None:
        """End spares that are too many, and begin to start those that are missing.

        Args:
            at_once: no agent lives yet, and the first one will wait for the first spare.
            most: spares at most, until this is called again; None: as many as the limits want.
        """
        self._most = most
        table = self._table
        if not table.is_open:
            return
        for worker in table.spares()[self._wanted() :]:
            table.end_process(worker)
        if self._missing() > 0 and (self.starting is None or self.starting.done()):
            self.starting = asyncio.create_task(self._start_missing(0.0 if at_once else self._table.limits.spare_delay_s))

    def start_further(self, number: int) -> None:
        """Have so many processes more than spares, since those with agents are busy. They wait for nodes to be added."""
        if number == self._further == 0:
            return
        self._further = number
        self.adapt()

    def adapt(self) -> None:
        """End and start spares as the limits want now."""
        self.start_spares(most=self._most)

    async def load(self, agent: str) -> None:
        """Have the prepared spares load the code of an agent of the first version. They take agents of no other one then."""
        for worker in self._table.spares():
            process = worker.process()
            if process is None or not worker.is_ready or worker.mark is not None:
                continue
            worker.mark = ""
            try:
                await process.load(agent)
            except ActorLostError:
                self._table.lose(worker)
            except ClusterError as error:
                # The agent's activation will report it.
                logger.debug("the code of agent %r could not be loaded before it is needed: %s", agent, error)

    def replace_loaded(self) -> None:
        """Have processes without code take the place of spares that have loaded some, since there is a later version."""
        for worker in self._table.spares():
            if worker.mark is not None:
                self._table.end_process(worker)
        self.adapt()

    def reuse_or_end(self, worker: WorkerProcess) -> None:
        """Keep a process that has become empty as a spare if one is missing and it is fit for it; otherwise end it."""
        if worker.is_empty and not worker.is_over:
            worker.is_ready = worker.process() is not None
            is_of_version = self._table.has_versions and worker.mark is not None
            # A node is given back when no process is left on it; spares stand ready on the Runner's.
            is_elsewhere = self._table.limits.claims
            if worker.is_own or worker.is_worn or is_of_version or is_elsewhere or not worker.is_ready or self._missing() < 0:
                self._table.end_process(worker)

    async def _start_missing(self, delay_s: float) -> None:
        """Start spares one at a time; activations go first."""
        table = self._table
        while True:
            if table.activating:
                await asyncio.wait(list(table.activating.values()), timeout=ACTIVATIONS_S)
            await asyncio.sleep(delay_s)
            delay_s = table.limits.spare_delay_s
            if self._missing() <= 0:
                return
            worker = await self._starter.start_spare()
            if worker is None and self._further:
                worker = self._starter.start(None)
            if worker is None:
                return
            try:
                worker.note(await (await self._starter.started(worker)).prepare())
            except ActorLostError:
                table.lose(worker)
                return
            except ClusterError:
                # The cluster has no room for a spare now. An activation that needs a process will report the error.
                table.end_process(worker)
                return
            worker.is_ready = True

    def _missing(self) -> int:
        """The number of spares that are missing; below 0 there are too many."""
        return self._wanted() - len(self._table.spares())

    def _wanted(self) -> int:
        limits, in_use = self._table.limits, self._table.in_use()
        without = limits.agents - sum(len(worker.agents) for worker in in_use)
        most = limits.spares if self._most is None else min(self._most, limits.spares)
        return spares_wanted(most, without=without, room=limits.max_processes - len(in_use)) + self._further
