"""The real pool of processes of agents, over simulated processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from actors.errors import ActorLostError
from actors.interfaces.transport import Link
from actors.layers.kinds import agent_actor
from actors.layers.trees.process_groups import ProcessGroup, Replica
from actors.messages.session import SessionKey
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.process_table import PoolLimits
from runtime.cluster.processes.worker_process import Activated
from tests.simulation.cluster import Handle, HostProcess, SimDirectory

if TYPE_CHECKING:
    from tests.simulation.nodes.world import NodeProcess, NodesWorld


class AgentsProcess:
    """Implements `AgentProcess`: a process for agents on a node."""

    def __init__(self, world: NodesWorld, runner: HostProcess, process: NodeProcess) -> None:
        self.process = process
        self.name = process.name
        self._world = world
        self._runner = runner

    async def prepare(self) -> Activated:
        """Load what agents will need."""
        await self._takes()
        return self._told()

    async def load(self, agent: str) -> None:
        """Load the code of an agent."""
        await self._takes()

    async def activate(self, slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        """Have an agent live here."""
        self.passivate(leaving)
        await self._takes()
        environment = self._world.agent_environment(self.process, self._runner)
        self.process.actors[str(slot)] = self.process.run(agent_actor, self._world.spec(agent), environment)
        return self._told()

    def passivate(self, slots: Sequence[int]) -> None:
        """Have agents leave."""
        for slot in map(str, slots):
            if self.process.running[slot]:
                self._world.problems.append(f"an agent in use had to leave {self.name}")
            self.process.actors.pop(slot, None)

    def link(self, agent: str, slot: int) -> Link:
        """A link to an agent here."""
        return Handle(self._world.wires, self._runner, lambda: self.process, can_restart=False, slot=str(slot)).link(agent)

    def kill(self) -> None:
        """End it."""
        self._world.check_end(self.process)
        self.process.is_forgotten = True
        self._world.end_soon(self.process)

    async def _takes(self) -> None:
        await asyncio.sleep(self._world.chance.uniform(0, 0.05))
        if self.process.is_dead:
            raise ActorLostError("a process", "it was lost")

    def _told(self) -> Activated:
        return Activated(1, node=self.process.node.id)


class PooledDirectory(SimDirectory):
    """Implements `Directory` by the real pool. It also is the source of the pool's processes."""

    def __init__(self, world: NodesWorld, runner: HostProcess, limits: PoolLimits) -> None:
        super().__init__(lambda agent, alone: None, world.end_soon, world.wires, runner)
        self._world = world
        self._made: list[NodeProcess] = []
        self.pool = Pool(self, limits)

    async def start(self, group: ProcessGroup | None, node: str = "", *, is_spare: bool = False) -> AgentsProcess:
        """Start a process. Where its node has gone meanwhile, or drains, Ray takes another one."""
        await asyncio.sleep(self._world.chance.uniform(0.01, 0.5))
        process = self._world.start_process("agents", await self._world.place_of_agents(node))
        process.runner = self._runner
        self._made.append(process)
        return AgentsProcess(self._world, self._runner, process)

    async def is_free(self, group: ProcessGroup | None, *, is_spare: bool = False) -> bool:
        """Nothing is reserved."""
        return True

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        return await self.pool.link(Replica(agent), None, alone=alone)

    def drop_link(self, agent: str, link: Link) -> None:
        self.pool.table.drop_link(link)

    def live(self) -> Sequence[tuple[str, Link]]:
        return [(replica.agent, link) for replica, link in self.pool.table.live()]

    def processes(self) -> list[HostProcess]:
        return [each for each in self._made if not each.is_dead]

    def counts(self) -> Mapping[str, int]:
        return self.pool.table.counts()

    async def close(self) -> None:
        await self.pool.close()
