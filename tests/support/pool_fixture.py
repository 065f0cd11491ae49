"""A pool whose processes are fakes: they are as slow as a test wants, and check every command that they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.definitions.agents import Placement
from actors.definitions.tree.process_groups import ProcessGroup
from actors.errors import ActorLostError, ClusterError, PlacementError
from actors.interfaces.transport import EarlyReply, Link
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.process_table import PoolLimits
from runtime.cluster.processes.worker_process import Activated, HostedAgent


class FakeProcess:
    """Implements `runtime.cluster.processes.worker_process.Process`.

    Attributes:
        agents: the agents that live here, by slot.
        slots: all slots that were ever given.
        runs: runs under way, by slot.
        is_dead: it was killed, or is to be found dead.
        memory_bytes: what it says that it uses.
    """

    def __init__(self, cluster: FakeCluster, number: int, group: ProcessGroup | None) -> None:
        self.cluster = cluster
        self.number = number
        self.name = f"process {number}"
        self.group = group
        self.agents: dict[int, str] = {}
        self.slots: set[int] = set()
        self.runs: dict[int, int] = {}
        self.is_dead = False
        self.memory_bytes = 0

    def __repr__(self) -> str:
        return f"process {self.number} with {sorted(self.agents.values())}"

    async def prepare(self) -> int:
        await self.cluster.pause()
        self.check_alive("a process")
        return self.number

    async def activate(self, slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        assert slot not in self.slots, "a slot is given twice"
        self.slots.add(slot)
        self.check_alive(agent)
        self.passivate(leaving)
        await self.cluster.pause()
        self.check_alive(agent)
        if agent in self.cluster.broken:
            raise PlacementError(agent, "sense", "and has none")
        self.agents[slot] = agent
        return Activated(self.number, self.memory_bytes)

    def passivate(self, slots: Sequence[int]) -> None:
        for slot in slots:
            assert not self.runs.get(slot), f"{self.agents[slot]} had to leave in the middle of a run"
            del self.agents[slot]

    def link(self, agent: str, slot: int) -> Link:
        return FakeLink(self, agent, slot)

    def kill(self) -> None:
        self.is_dead = True
        self.cluster.processes.discard(self)
        if self.group is not None:
            self.cluster.free.set()

    def check_alive(self, agent: str) -> None:
        """Raise ActorLostError when the process is dead."""
        if self.is_dead:
            raise ActorLostError(agent, "it was killed")


class FakeLink:
    """A link to an agent. It replies with the agent's name, after the cluster's pauses."""

    def __init__(self, process: FakeProcess, agent: str, slot: int) -> None:
        self.process = process
        self.agent = agent
        self.slot = slot

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        process = self.process
        process.check_alive(self.agent)
        assert process.agents.get(self.slot) == self.agent, "a message has come for an agent that does not live there"
        process.runs[self.slot] = process.runs.get(self.slot, 0) + 1
        try:
            if process.cluster.gate is not None:
                await process.cluster.gate.wait()
            await process.cluster.pause()
        finally:
            process.runs[self.slot] -= 1
        process.check_alive(self.agent)
        return self.agent.encode()


class FakeCluster:
    """Implements `runtime.cluster.processes.worker_process.ProcessSource` with fake processes.

    Attributes:
        processes: those that live.
        started: how many were started.
        gate: all runs wait for it, if there is one.
        broken: agents that cannot be loaded.
        free: set while the resources that groups ask for are free; only one process at a time can have them.
        pauses: for how many rounds of the event loop each step pauses, taken from the end; one when the list is used up.
        start_error: raised by every start, if there is one.
        is_deadly: processes are dead as soon as they are started.
    """

    def __init__(self) -> None:
        self.processes: set[FakeProcess] = set()
        self.started = 0
        self.gate: asyncio.Event | None = None
        self.broken: set[str] = set()
        self.free = asyncio.Event()
        self.free.set()
        self.pauses: list[int] = []
        self.start_error: ClusterError | None = None
        self.is_deadly = False

    async def start(self, group: ProcessGroup | None) -> FakeProcess:
        if self.start_error is not None:
            raise self.start_error
        if group is not None:
            await self.free.wait()
            self.free.clear()
        await self.pause()
        self.started += 1
        process = FakeProcess(self, self.started, group)
        process.is_dead = self.is_deadly
        self.processes.add(process)
        return process

    async def is_free(self, group: ProcessGroup) -> bool:
        return self.free.is_set()

    async def pause(self) -> None:
        for _ in range(self.pauses.pop() if self.pauses else 1):
            await asyncio.sleep(0)

    def lose(self, process: FakeProcess) -> None:
        """A process dies; the pool is not told."""
        process.kill()

    def pool(
        self,
        *,
        max_processes: int = 2,
        spares: int = 0,
        agents: int = 10,
        idle_timeout_s: float = 600.0,
        memory_share: int = 0,
    ) -> Pool:
        return Pool(self, PoolLimits(max_processes, spares, agents, idle_timeout_s, 1.0, memory_share, spare_delay_s=0))

    def agents_by_process(self) -> list[list[str]]:
        """The agents that live together, sorted."""
        return sorted(sorted(process.agents.values()) for process in self.processes)

    def runs(self) -> int:
        """Runs under way."""
        return sum(sum(process.runs.values()) for process in self.processes)


def group_of(agent: str) -> ProcessGroup:
    """The process group of an agent that asks for resources."""
    return ProcessGroup(agent, Placement(num_gpus=1))


def process_of(agent: HostedAgent) -> FakeProcess:
    """The process in which an agent lives."""
    process = agent.worker.process()
    assert isinstance(process, FakeProcess)
    return process
