"""A simulated cluster with nodes: they come, drain with notice, and are lost, with all processes on them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError
from actors.interfaces.transport import EarlyReply, Link
from actors.layers.kinds import agent_actor
from actors.layers.trees.process_groups import ProcessGroup, Replica
from actors.messages.session import SessionKey
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.process_table import PoolLimits
from runtime.cluster.processes.worker_process import Activated
from runtime.cluster.rules.leaving import CoreProcess, leaving
from runtime.cluster.rules.nodes import DrainNotice, Node
from runtime.engine.deployment import Deployment
from tests.simulation.cluster import Handle, HostProcess, Sent, SimDirectory
from tests.simulation.faults import FaultPlan
from tests.simulation.nodes.weather import NOTICE_S, Change, Weather
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop, outside
from tests.simulation.world import World, wall_s
from tests.support.inside import STOP_S

LOOKS_S, ASKS_S = 1.0, 0.5
"""How often a Runner looks at the nodes, and asks where processes are while a node drains."""

AGENTS = 2
"""How many agents the tree has."""

LATE_S = 2.5
"""How long before its node ends a process may be ended with all that runs in it."""

READY_S = 0.7
"""How long a standby takes until it is ready."""

HEAD = Node("head", {"memory": 8e9}, {}, "head")


class NodeProcess(HostProcess):
    """A process on a node.

    Attributes:
        node: where it is.
        began_s: when it was started.
        missed: keeps what came for an agent that does not live here any more.
        running: messages that are being dealt with, by slot.
    """

    node: Node
    began_s = 0.0

    def __init__(self, name: str, missed: list[str], *, can_restart: bool = False) -> None:
        super().__init__(name, can_restart=can_restart)
        self.missed = missed
        self.running: Counter[str] = Counter()

    async def receive(self, raw: bytes, slot: str, early: EarlyReply | None) -> bytes:
        """Have an actor handle a message."""
        self.running[slot] += 1
        if slot not in self.actors and not self.is_forgotten:
            self.missed.append(f"a message came to {self.name} for an agent that had left")
        try:
            return await super().receive(raw, slot, early)
        finally:
            self.running[slot] -= 1


class NodesWorld(World):
    """The world of a deployment on nodes that come and go.

    Attributes:
        nodes: those that are alive, the head first.
        chance: decides where things start, and how long that takes.
        problems: what may never happen.
    """

    def __init__(self, loop: VirtualLoop, deployment: Deployment, given: Weather, calls: StoreCalls, seed: int) -> None:
        super().__init__(loop, deployment, FaultPlan(network=given.network, has_standby=given.standby), calls, seed)
        self.chance = random.Random(f"nodes {seed}")
        self.problems: list[str] = []
        self.nodes = [HEAD]
        self._changed = asyncio.Event()
        self._given = given
        self._agents = AGENTS
        self._by_messages = {change.at_message: change for change in given.changes if change.at_message}
        self._sent = 0
        self._stops: list[tuple[float, Sent]] = []
        self._numbers = 0
        self._asked_s = 0.0
        for cpus in given.nodes:
            self._come(cpus)

    def start(self) -> None:
        """Start the Session actor and the Runner, and have nodes change."""
        super().start()
        for change in self._given.changes:
            if not change.at_message:
                self._later(change.at_s, self._change, change)
        self._later(ASKS_S, self._look)

    def start_process(self, name: str, node: Node, *, can_restart: bool = False) -> NodeProcess:
        """Start a process on a node."""
        self._incarnations += 1
        process = NodeProcess(f"{name}#{self._incarnations}", self.problems, can_restart=can_restart)
        process.node, process.began_s = node, self.loop.time()
        self.trace.add(self.loop.time(), f"{process.name} is on {node.id}")
        return process

    def agent_environment(self, process: HostProcess, runner: HostProcess) -> AgentEnvironment:
        """What agents in a process are given."""
        return self._environment(process, runner)

    def end_soon(self, process: HostProcess) -> None:
        """End a process, as the Runner has asked for it."""
        self._kill_soon(process)

    def check_end(self, process: NodeProcess) -> None:
        """A Runner asks for the end of a process: agents in use are ended only where its node is about to end, or where
        one of them does not stop a run in time."""
        node = next((node for node in self.nodes if node.id == process.node.id), None)
        soon_s = wall_s(self.loop) + LATE_S
        is_late = node is None or (node.drain is not None and (node.drain.deadline_s or soon_s) < soon_s)
        unanswered = [*process.serving.values(), *process.replying.values()]
        is_deaf = any(self.loop.time() - at_s > STOP_S - 0.001 and stop in unanswered for at_s, stop in self._stops)
        if any(process.running.values()) and not (process.is_dead or is_late or is_deaf):
            self.problems.append(f"{process.name} was ended with an agent in use")

    async def place_of_agents(self, wanted: str) -> Node:
        """The node on which a process of agents is started, as soon as there is one."""
        while not (staying := {node.id: node for node in self._staying()}):
            await self._changed.wait()
        return staying.get(wanted) or self.chance.choice(list(staying.values()))

    def _process(self, name: str, *, can_restart: bool = False) -> NodeProcess:
        nodes = self._staying()
        leads = self.runner if name == "runner" and self.runner is not None and not self.runner.is_dead else None
        apart = [node for node in nodes if isinstance(leads, NodeProcess) and node.id != leads.node.id]
        return self.start_process(name, self.chance.choice(apart or nodes), can_restart=can_restart)

    def _directory(self, process: HostProcess) -> SimDirectory:
        limits = PoolLimits(self._given.hosts, self._given.spares, self._agents, 600.0, 1.0)
        directory = PooledDirectory(self, process, limits)
        self._limits_of_pools = limits
        process.run(self._follow, process, directory)
        return directory

    def _follow(self, process: HostProcess, directory: PooledDirectory) -> None:
        """Have a Runner look at the nodes, again and again."""
        seen: list[Sequence[Node]] = []

        def look() -> None:
            if not seen or seen[-1] != self.nodes:
                seen[:] = [list(self.nodes)]
                directory.pool.adapt(self._limits_of_pools, seen[-1])
            self.loop.call_later(LOOKS_S, look)

        self.loop.call_later(self.chance.uniform(0, LOOKS_S), look)

    def _start_session(self) -> None:
        if self._staying():
            super()._start_session()
        else:
            self._later(0.1, self._start_session)

    def _restart_runner(self) -> None:
        if self._staying():
            super()._restart_runner()
        else:
            self._later(0.1, self._restart_runner)

    def _on_sent(self, sent: Sent) -> float:
        self._sent += 1
        if sent.kind == "StopRun":
            self._stops.append((self.loop.time(), sent))
        change = self._by_messages.pop(self._sent, None)
        if change is not None:
            self._later(0.0, self._change, change)
        return super()._on_sent(sent)

    def _later(self, seconds: float, function: Any, *args: Any) -> None:
        outside(self.loop.call_later, seconds, function, *args)

    def _set_nodes(self, nodes: list[Node]) -> None:
        changed, self.nodes, self._changed = self._changed, nodes, asyncio.Event()
        changed.set()

    def _staying(self) -> list[Node]:
        """Where Ray starts processes: not on nodes that drain. The head has no CPUs, and not what the core asks for."""
        return [node for node in self.nodes[1:] if node.drain is None]

    def _come(self, cpus: int) -> None:
        self._numbers += 1
        name = f"node {self._numbers}"
        self._set_nodes([*self.nodes, Node(name, {"CPU": float(cpus), "memory": 8e9}, {}, name)])

    def _change(self, change: Change) -> None:
        self.trace.add(self.loop.time(), f"CHANGE {change}")
        staying = self._staying()
        if change.what == "comes":
            self._come(1)
        elif len(staying) > 1:
            node = self._meant(change) or self.chance.choice(staying)
            if change.what == "ends":
                self._end(node.id)
            elif node.drain is None:
                self._drain(node, change.notice_s)

    def _meant(self, change: Change) -> Node | None:
        agents = self.directory.processes()[:1] if self.directory is not None else []
        processes: dict[str, list[HostProcess | None]] = {
            "session": [self.session],
            "runner": [self.runner],
            "standby": [self.standby],
            "agents": [*agents],
        }
        for process in processes.get(change.whose, ()):
            if isinstance(process, NodeProcess) and not process.is_dead:
                return next((node for node in self.nodes[1:] if node.id == process.node.id), None)
        return None

    def _drain(self, node: Node, notice_s: float) -> None:
        ends_s = wall_s(self.loop) + notice_s if notice_s else None
        drained = node._replace(drain=DrainNotice(ends_s))
        self._set_nodes([drained if each.id == node.id else each for each in self.nodes])
        if notice_s:
            self._later(notice_s, self._end, node.id, notice_s >= NOTICE_S)

    def _end(self, name: str, had_time: bool = False) -> None:
        self.trace.add(self.loop.time(), f"{name} ends")
        self._set_nodes([node for node in self.nodes if node.id != name])
        for process in [each for each in self.loop.processes if isinstance(each, NodeProcess) and each.node.id == name]:
            if process.is_dead:
                continue
            if had_time and not process.is_forgotten and not any(process.running.values()) and self._is_known(process):
                self.problems.append(f"{process.name} was still on {name} when that had ended with notice")
            self.kill(process, self.chance.uniform(0.1, 3.0))

    def _is_known(self, process: NodeProcess) -> bool:
        """It is no process of a Runner that was lost."""
        return process.runner is None or process.runner is self.runner

    def _look(self) -> None:
        """What the process of the first Runner does while nodes drain: it has processes leave by the rule."""
        self._later(ASKS_S, self._look)
        ends_s = {node.id: node.drain.deadline_s for node in self.nodes if node.drain is not None}
        if not ends_s or self.runner is None or self.runner.is_dead:
            return
        processes = list(self._core())
        now = leaving([each for each, _ in processes], ends_s, has_room=bool(self._staying()), now_s=wall_s(self.loop))
        for each, process in processes:
            if each.name in now and process is not None and not process.is_dead:
                self.trace.add(self.loop.time(), f"{process.name} leaves")
                if each.is_session and self._given.outlives:
                    self.replace_session(self.chance.uniform(0, 2.0))
                else:
                    self.kill(process, self.chance.uniform(0.1, 1.0))

    def _core(self) -> Any:
        for name, actor, process in (
            ("session", "session", self.session),
            ("runner", "runner", self.runner),
            ("standby", "runner", self.standby),
        ):
            if name == "standby" and not self._given.standby:
                continue
            found = CoreProcess(name, actor, is_session=actor == "session")
            if isinstance(process, NodeProcess) and not process.is_dead:
                is_ready = self.loop.time() - process.began_s > READY_S
                found = found._replace(node=process.node.id, leads=name != "standby", is_ready=is_ready)
            yield found, process


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
