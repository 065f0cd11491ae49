"""Activates agents: chooses a process, makes room in it, and has the agent live there. Passivates those that were idle long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from actors.errors import ActorLostError
from actors.layers.trees.process_groups import ProcessGroup, Replica
from actors.messages.codec import encode
from actors.messages.protocol.base import Stop
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.starting import ProcessStarter, SpareProcesses
from runtime.cluster.processes.worker_process import HostedAgent, WorkerProcess
from runtime.cluster.rules.nodes import surplus
from runtime.cluster.rules.process_choice import chosen, leaving


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
