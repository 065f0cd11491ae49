"""A pool whose processes are none: they are as slow as a test wants, and check everything that is sent to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.definitions.agents import Placement
from actors.definitions.tree.process_groups import ProcessGroup
from actors.errors import ActorLostError, PlacementError
from actors.interfaces.transport import Link
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.worker_process import HostedAgent


class FakeProcess:
    """Implements `runtime.cluster.processes.worker_process.Process`.

    Attributes:
        agents: who lives here, by seat.
        runs: of whom a run is under way, and how many.
        is_dead: it was killed, or is to be found dead.
    """

    def __init__(self, street: Street, number: int, home: ProcessGroup | None) -> None:
        self.street = street
        self.number = number
        self.home = home
        self.agents: dict[int, str] = {}
        self.seats: set[int] = set()
        self.runs: dict[int, int] = {}
        self.is_dead = False

    def __repr__(self) -> str:
        return f"process {self.number} with {sorted(self.agents.values())}"

    async def prepare(self) -> int:
        await self.street.pause()
        self._lives("a process")
        return self.number

    async def adopt(self, seat: int, agent: str, leaving: Sequence[int]) -> int:
        assert seat not in self.seats, "a seat is given twice"
        self.seats.add(seat)
        self._lives(agent)
        self.drop(leaving)
        await self.street.pause()
        self._lives(agent)
        if agent in self.street.broken:
            raise PlacementError(agent, "sense", "and has none")
        self.agents[seat] = agent
        return self.number

    def drop(self, seats: Sequence[int]) -> None:
        for seat in seats:
            assert not self.runs.get(seat), f"{self.agents[seat]} had to leave in the middle of a run"
            del self.agents[seat]

    def link(self, agent: str, seat: int) -> Link:
        return FakeLink(self, agent, seat)

    def kill(self) -> None:
        self.is_dead = True
        self.street.processes.discard(self)
        if self.home is not None:
            self.street.free.set()

    def _lives(self, agent: str) -> None:
        if self.is_dead:
            raise ActorLostError(agent, "it was killed")


class FakeLink:
    """A way to an agent. A message is what it is asked to wait for; it replies with its name."""

    def __init__(self, process: FakeProcess, agent: str, seat: int) -> None:
        self.process = process
        self.agent = agent
        self.seat = seat

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        process = self.process
        process._lives(self.agent)
        assert process.agents.get(self.seat) == self.agent, "a message has come for somebody who does not live there"
        process.runs[self.seat] = process.runs.get(self.seat, 0) + 1
        try:
            if process.street.gate is not None:
                await process.street.gate.wait()
            await process.street.pause()
        finally:
            process.runs[self.seat] -= 1
        process._lives(self.agent)
        return self.agent.encode()


class Street:
    """Where fake processes are started.

    Attributes:
        processes: those that live.
        started: how many were.
        most: how many with agents there have been at once.
        gate: all runs wait for it, if there is one.
        broken: agents that cannot be loaded.
        free: what a home asks for is free; only one process at a time can have it.
        pauses: how many turns of the event loop each step takes, one after the other; then none.
    """

    def __init__(self) -> None:
        self.processes: set[FakeProcess] = set()
        self.started = 0
        self.gate: asyncio.Event | None = None
        self.broken: set[str] = set()
        self.free = asyncio.Event()
        self.free.set()
        self.pauses: list[int] = []

    async def start(self, home: ProcessGroup | None) -> FakeProcess:
        if home is not None:
            await self.free.wait()
            self.free.clear()
        await self.pause()
        self.started += 1
        process = FakeProcess(self, self.started, home)
        self.processes.add(process)
        return process

    async def is_free(self, home: ProcessGroup) -> bool:
        return self.free.is_set()

    async def pause(self) -> None:
        for _ in range(self.pauses.pop() if self.pauses else 1):
            await asyncio.sleep(0)

    def lose(self, process: FakeProcess) -> None:
        """A process dies; who finds it out is not said."""
        process.kill()

    def pool(self, *, most: int = 2, spares: int = 0, agents: int = 10, idle_timeout_s: float = 600.0) -> Pool:
        return Pool(
            self.start,
            self.is_free,
            most=most,
            spares=spares,
            agents=agents,
            idle_timeout_s=idle_timeout_s,
            stop_timeout_s=1.0,
            fill_after_s=0,
        )

    def homes(self) -> list[list[str]]:
        """Who lives together."""
        return sorted(sorted(process.agents.values()) for process in self.processes)


def own(agent: str) -> ProcessGroup:
    """A home that asks for something."""
    return ProcessGroup(agent, Placement(num_gpus=1))


def lives_in(tenant: HostedAgent) -> FakeProcess:
    """The process of somebody who lives."""
    process = tenant.host.process()
    assert isinstance(process, FakeProcess)
    return process
