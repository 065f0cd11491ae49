"""Activates agents: chooses a process, makes room in it, and has the agent live there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from actors.definitions.tree.process_groups import ProcessGroup, Replica
from actors.errors import ActorLostError
from actors.messages.codec import encode
from actors.messages.protocol.lifecycle import Stop
from runtime.cluster.processes.passivation import Passivation
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.spares import SpareProcesses
from runtime.cluster.processes.starting import ProcessStarter
from runtime.cluster.processes.worker_process import HostedAgent, WorkerProcess
from runtime.cluster.rules.process_choice import chosen, leaving


class Activation:
    """Gives links to agents, and activates those that do not live. Concurrent callers share one activation."""

    def __init__(self, table: ProcessTable, starter: ProcessStarter, spares: SpareProcesses, passivation: Passivation) -> None:
        self._table = table
        self._starter = starter
        self._spares = spares
        self._passivation = passivation
        self._ending: set[asyncio.Task[None]] = set()

    async def link(self, replica: Replica, group: ProcessGroup | None) -> HostedAgent:
        """The link to an agent: see `Pool.link`."""
        table = self._table
        agent = table.agents.get(replica)
        if agent is not None:
            return agent
        table.wanted[replica] += 1
        try:
            while (agent := table.agents.get(replica)) is None:
                await asyncio.shield(table.activating.get(replica) or self._begin(replica, group))
            return agent
        finally:
            table.wanted[replica] -= 1
            if not table.wanted[replica]:
                del table.wanted[replica]

    def _begin(self, replica: Replica, group: ProcessGroup | None) -> asyncio.Task[None]:
        task = self._table.activating[replica] = asyncio.create_task(self._run(replica, group))
        # All callers may be cancelled, and asyncio reports an exception that no task has retrieved.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task

    async def _run(self, replica: Replica, group: ProcessGroup | None) -> None:
        try:
            await self._activate(replica, group)
        finally:
            # Not in a callback, so that `activating` never holds a task that is done.
            del self._table.activating[replica]
            self._spares.start_spares()
            self._passivation.watch()

    async def alone(self, replica: Replica, group: ProcessGroup | None) -> HostedAgent:
        """The link to an agent in a process of its own, which ends with the reply to the first message: see `Pool.link`."""
        table = self._table
        if group is not None and group.has_own_process(replica.replica):
            worker = self._starter.start(group)
        else:
            worker = self._spares.take_process(replica.mark)
        table.set_apart(worker)
        try:
            agent = await self.move_in(worker, replica, replica, ())
        except BaseException:
            table.end_process(worker)
            raise
        finally:
            self._spares.start_spares()
        table.add_apart(agent)
        worker.on_unused = lambda: self.end_apart(agent)
        return agent

    def end_apart(self, agent: HostedAgent) -> None:
        """Let a process in which an agent lives hand on what it has logged and measured, then end it."""
        agent.worker.on_unused = lambda: None
        ending = asyncio.create_task(self._stop_apart(agent))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _stop_apart(self, agent: HostedAgent) -> None:
        try:
            with suppress(ActorLostError, TimeoutError):
                async with asyncio.timeout(self._table.limits.stop_timeout_s):
                    await agent.idle_link.send(encode(Stop()))
        finally:
            self._table.lose(agent.worker)

    async def _activate(self, replica: Replica, group: ProcessGroup | None) -> None:
        table = self._table
        leader = replica if group is None else Replica(group.leader, replica.replica, replica.mark)
        while True:
            has_room = self._spares.is_ready(leader.mark) or await self._starter.has_room()
            before = set(table.workers)
            worker, slots = self._choose(leader, group, has_room=has_room)
            worker.arriving.append(leader)
            try:
                agent = await self.move_in(worker, replica, leader, slots)
            except ActorLostError:
                table.suspect_node(worker)
                table.lose(worker)
                if worker in before:
                    # The process died earlier, so the agent is not the cause.
                    continue
                raise
            except Exception:
                worker.arriving.remove(leader)
                self._spares.reuse_or_end(worker)
                raise
            worker.arriving.remove(leader)
            if not worker.is_over and not worker.is_draining:
                break
        table.add(agent)

    async def move_in(self, worker: WorkerProcess, replica: Replica, leader: Replica, leaving: Sequence[int]) -> HostedAgent:
        """Have an agent live in a process. Raises ActorLostError, ClusterError."""
        worker.mark = leader.mark
        slot, worker.activations = worker.activations, worker.activations + 1
        process = await self._starter.started(worker)
        worker.note(await process.activate(slot, replica.definition, leaving))
        return HostedAgent(replica, leader, worker, slot, process.link(replica.definition, slot))

    def _choose(self, leader: Replica, group: ProcessGroup | None, *, has_room: bool) -> tuple[WorkerProcess, Sequence[int]]:
        """A process for an agent, and the slots of the agents that leave it for that.

        Args:
            has_room: a further process would start at once.
        """
        table = self._table
        table.has_versions = table.has_versions or bool(leader.mark)
        worker = table.worker_of(leader)
        if worker is not None:
            return worker, ()
        if group is not None and group.has_own_process(leader.replica):
            return self._starter.start(group, is_further=leader.replica >= group.placement.replicas), ()
        all_in_use, limits = table.in_use(), table.limits
        in_use = [each for each in all_in_use if each.takes(leader.mark)]
        loads = [worker.load(table.wanted, leader, limits.memory_share) for worker in in_use]
        index = chosen(
            loads,
            # Each mark gets one process at least.
            limit=max(1, (limits.max_processes if has_room else len(all_in_use)) - (len(all_in_use) - len(in_use))),
            agents=limits.agents,
            is_ready=self._spares.is_ready(leader.mark),
            may_join=limits.spares > 0,
        )
        if index is None:
            return self._spares.take_process(leader.mark), ()
        worker, load = in_use[index], loads[index]
        idle = worker.idle(table.wanted)
        if load.is_short and not load.in_use:
            # Memory that Python has given out does not come back by passivating agents.
            table.passivate(idle)
            table.end_process(worker)
            return self._spares.take_process(leader.mark), ()
        if load.in_use:
            table.events["shared"] += 1
        out = leaving([agent.used_s for agent in idle], living=load.agents, is_short=load.is_short)
        return worker, table.passivate([idle[each] for each in out])
