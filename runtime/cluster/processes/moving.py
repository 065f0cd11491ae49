"""Moves agents between nodes as these come and go, so that no turn waits for it.

The agents of a process come to live in another one, which may have to start for that. Then every new run goes there, and the old
process ends with the last run in it. Agents that were not used lately are passivated instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial

from actors.errors import ActorLostError, ClusterError
from actors.messages.event import now_s
from runtime.cluster.processes.activation import Activation
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.starting import ProcessStarter, SpareProcesses
from runtime.cluster.processes.worker_process import HostedAgent, WorkerProcess
from runtime.cluster.rules.nodes import DrainNotice, next_move
from runtime.cluster.rules.process_choice import least_used

ACTIVE_S = 60.0
"""An agent that was used within this time moves; another one is passivated."""

AT_ONCE = 4
"""Processes that leave a node at the same time: each that starts costs half a second of CPU."""

PATIENCE_S = 60.0
"""How long agents may take to live in another process, where nothing presses."""

BEFORE_DEADLINE_S = 2.0
"""Runs that are still under way on a node so long before it leaves are ended, and go on elsewhere: its loss would show later."""

LEAVES = "its node is about to leave"
EVENS_OUT = "its node has more to do than others"


class Moving:
    """Moves agents off nodes that are about to leave, and to nodes that have joined.

    Attributes:
        under_way: moves in the background; None before the first.
    """

    def __init__(self, table: ProcessTable, starter: ProcessStarter, spares: SpareProcesses, activation: Activation) -> None:
        self._table = table
        self._starter = starter
        self._spares = spares
        self._activation = activation
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self.under_way: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to move agents, since the nodes have changed."""
        if self._table.is_open and (self.under_way is None or self.under_way.done()):
            self.under_way = asyncio.create_task(self._run())

    async def _run(self) -> None:
        table = self._table
        while True:
            leaving = self._leaving()
            self._end_overdue(leaving)
            on_leaving = [worker for worker in table.workers if worker.node in leaving]
            # Where processes claim resources, nodes come and go by what is claimed on them.
            counts = table.processes_by_node() if not table.limits.claims else {}
            move = next_move(table.nodes, counts, table.limits.needs)
            if on_leaving:
                async with asyncio.TaskGroup() as group:
                    for worker in on_leaving:
                        group.create_task(self._leave(worker, leaving[worker.node]))
            elif move is not None:
                await self._even_out(move.source)
            elif not any(worker.node in leaving for worker in table.draining):
                return
            await asyncio.sleep(table.limits.move_pause_s)

    def _leaving(self) -> Mapping[str, DrainNotice]:
        return {node.id: node.drain for node in self._table.nodes if node.drain is not None}

    def _end_overdue(self, leaving: Mapping[str, DrainNotice]) -> None:
        table = self._table
        for worker in [*table.draining, *table.workers]:
            notice = leaving.get(worker.node)
            if notice is not None and notice.deadline_s is not None and now_s() > notice.deadline_s - BEFORE_DEADLINE_S:
                table.lose(worker)

    async def _leave(self, worker: WorkerProcess, notice: DrainNotice) -> None:
        async with self._at_once:
            patience_s = PATIENCE_S if notice.deadline_s is None else (notice.deadline_s - now_s()) / 2
            await self._move(worker, LEAVES, patience_s, must=True)

    async def _even_out(self, node: str) -> None:
        table = self._table
        ready = [worker for worker in table.workers if worker.node == node and not worker.is_own and worker.process() is not None]
        if ready:
            worker = ready[least_used([worker.load(table.wanted) for worker in ready])]
            await self._move(worker, EVENS_OUT, PATIENCE_S, must=False)

    async def _move(self, worker: WorkerProcess, why: str, patience_s: float, *, must: bool) -> None:
        """Have the agents of a process live elsewhere, and let it end.

        Args:
            why: ends a sentence about it.
            patience_s: how long they may take.
            must: it ends also if they cannot live elsewhere now.
        """
        table = self._table
        if worker.arriving:
            # It is left alone until these agents live there. The next look is soon.
            return
        since_s = time.monotonic() - ACTIVE_S
        active = [agent for agent in worker.agents.values() if agent.in_use or agent.used_s > since_s]
        target = self._target(worker) if active else None
        moved = await self._settle(target, active, patience_s) if target is not None else []
        # From here on nothing else happens in between.
        stays: list[HostedAgent] = []
        if must or len(moved) == len(active):
            stays = [new for old, new in moved if self._takes_over(new, old)]
            self._end(worker, why)
            for agent in stays:
                table.add(agent)
        if target is not None:
            process = target.process()
            if process is not None and not target.is_over:
                process.passivate([new.slot for _, new in moved if new not in stays])
            self._spares.reuse_or_end(target)
        self._spares.adapt()

    def _end(self, worker: WorkerProcess, why: str) -> None:
        """Let a process end with the last run in it, if it does not do so already."""
        if worker.is_over or worker.is_draining:
            return
        agent = next(iter(worker.agents.values()), None)
        if agent is None:
            self._table.end_process(worker)
        else:
            self._table.drain(worker, why, end=partial(self._activation.end_apart, agent))

    def _target(self, worker: WorkerProcess) -> WorkerProcess:
        """Where the agents of a process go: to a new one, or if there may be no more, to the least used one."""
        table = self._table
        if worker.group is not None:
            return self._starter.start(worker.group, is_further=not worker.makes_room)
        others = [
            each
            for each in table.in_use()
            if each is not worker and each.node not in self._leaving() and each.takes(worker.mark or "")
        ]
        if len(others) < table.limits.max_processes:
            return self._starter.start(None)
        return others[least_used([each.load(table.wanted) for each in others])]

    async def _settle(
        self, target: WorkerProcess, agents: Sequence[HostedAgent], patience_s: float
    ) -> list[tuple[HostedAgent, HostedAgent]]:
        """Activate agents a second time, in another process. Returns those that live there, each behind the first one."""
        moved = []
        leaders = [agent.leader for agent in agents]
        target.arriving += leaders
        try:
            async with asyncio.timeout(patience_s):
                for agent in agents:
                    moved.append((agent, await self._activation.move_in(target, agent.replica, agent.leader, ())))
        except ActorLostError:
            self._table.lose(target)
            return []
        except (ClusterError, TimeoutError):
            # There is no room for the process, or it starts slowly. The next activation of such an agent reports what is wrong.
            pass
        finally:
            for leader in leaders:
                target.arriving.remove(leader)
        return moved

    def _takes_over(self, new: HostedAgent, old: HostedAgent) -> bool:
        """Whether an agent may live where it is now: nothing has happened meanwhile to the process, or to the agent."""
        table, worker = self._table, new.worker
        is_elsewhere = table.agents.get(old.replica, old) is not old or old.replica in table.activating
        return not (worker.is_over or worker.is_draining or is_elsewhere)
