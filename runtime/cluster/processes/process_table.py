"""The table that all parts of a pool share: its limits, its processes, the agents that live, and the activations under way.

Its methods do not await, so processes and agents always agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from actors.errors.hints import some_of
from actors.interfaces.telemetry import tell_event
from actors.interfaces.transport import Link
from actors.layers.trees.process_groups import Replica
from runtime.cluster.processes.worker_process import HostedAgent, WorkerProcess
from runtime.cluster.rules.nodes import NOTHING, Needs, Node, node_for

IDLE = "it was idle and has been put to sleep"
LOST = "its process was lost"

TOLD_AGENTS = 5
"""Agents of a lost process that its event names."""

SPARE_DELAY_S = 0.1
"""Starting a process costs as much CPU as dozens of turns, so an agent that was just activated replies first."""


MOVE_PAUSE_S = 1.0
"""A node that joins has its share after seconds, and no more than 60 processes a minute start for that."""


@dataclass(frozen=True)
class PoolLimits:
    """The limits of a pool.

    Attributes:
        max_processes: processes with agents; those started for a process group that asks for resources do not count.
        spares: processes to keep prepared.
        agents: agents that can live in any process.
        idle_timeout_s: an agent that was idle for this long is passivated.
        stop_timeout_s: how long an agent may take to stop when the pool closes.
        memory_share: bytes that a process may use before its idle agents leave; 0: as many as it likes.
        spare_delay_s: the pause between an activation and the start of a spare.
        claims: processes claim resources, so that a node with one is not given back, and there may be no room for another one.
        needs: what a process for any agent asks of its node.
        move_pause_s: the pause between two moves of processes, so that they cost little however many there are.
    """

    max_processes: int
    spares: int
    agents: int
    idle_timeout_s: float
    stop_timeout_s: float
    memory_share: int = 0
    spare_delay_s: float = SPARE_DELAY_S
    claims: bool = False
    needs: Needs = NOTHING
    move_pause_s: float = MOVE_PAUSE_S


SUSPECT_S = 20.0
"""How long a node on which a process was lost may be gone itself: Ray notices that after 10 to 15 seconds."""


class ProcessTable:
    """The processes of a pool and the agents in them.

    Attributes:
        nodes: of the cluster; none: they are not known, and processes start on any.
        workers: all processes that are not over and take agents, also those that are starting.
        draining: processes that take no agents any more, and end with the last run in them.
        agents: all agents that live and take messages; an agent with runs in a draining process may live a second time.
        wanted: how many callers wait for a link to an agent; such an agent is not passivated.
        activating: activations under way.
        events: how often something has happened: `activations`, `passivations`, `shared`, `replaced`, `lost`.
        has_versions: the deployment was updated: an empty process that agents have lived in is of no use for all of them.
        losses: how often the process of an agent was lost.
        activations: how often an agent was activated, those that live no more included.
        is_open: False once the pool closes; nothing is started in the background any more.
    """

    def __init__(self, limits: PoolLimits) -> None:
        self.limits = limits
        self.nodes: Sequence[Node] = ()
        self.workers: list[WorkerProcess] = []
        self.draining: list[WorkerProcess] = []
        self.agents: dict[Replica, HostedAgent] = {}
        self.wanted: Counter[Replica] = Counter()
        self.activating: dict[Replica, asyncio.Task[None]] = {}
        self.events = {"activations": 0, "passivations": 0, "shared": 0, "replaced": 0, "lost": 0}
        self.has_versions = False
        self.losses: Counter[Replica] = Counter()
        self.activations: Counter[Replica] = Counter()
        self.is_open = True
        self._lost_s: dict[str, float] = {}

    def add(self, agent: HostedAgent) -> None:
        """Take in an agent that was activated."""
        self.agents[agent.replica] = agent
        self.add_apart(agent)

    def set_apart(self, worker: WorkerProcess) -> None:
        """Keep an empty process for one run: no agent else moves in, and it ends when it is used no more."""
        worker.is_draining = True
        self.workers.remove(worker)
        self.draining.append(worker)
        worker.on_unused = lambda: self.lose(worker)

    def add_apart(self, agent: HostedAgent) -> None:
        """Take in an agent that was activated in such a process. No other message finds it."""
        agent.worker.agents[agent.replica] = agent
        self.events["activations"] += 1
        self.activations[agent.replica] += 1

    def worker_of(self, leader: Replica) -> WorkerProcess | None:
        """The process of the agents with that leader."""
        return next((worker for worker in self.workers if worker.holds(leader)), None)

    def runs_by_replica(self, leader: str, mark: str, most: int) -> dict[int, int]:
        """The runs under way of each replica of an agent that lives, by its number, which is below `most`."""
        replicas = ((number, self.agents.get(Replica(leader, number, mark))) for number in range(most))
        return {number: agent.in_use for number, agent in replicas if agent is not None}

    def waiting(self, leader: str, mark: str) -> int:
        """The number of callers that wait until a replica of an agent lives."""
        return sum(count for replica, count in self.wanted.items() if replica.agent == leader and replica.mark == mark)

    def runs(self, most: int) -> int:
        """The runs under way in processes for any agent, `most` of each agent at most: for more it gets replicas of its own."""
        agents = (agent for worker in self.workers if not worker.is_own for agent in worker.agents.values())
        return sum(min(agent.in_use, most) for agent in agents)

    def in_use(self) -> list[WorkerProcess]:
        """Processes for any agent that are not empty."""
        return [worker for worker in self.workers if not worker.is_own and not worker.is_empty]

    def spares(self) -> list[WorkerProcess]:
        """Empty processes for any agent: first those that are prepared, and on nodes that are surely there."""
        empty = (worker for worker in self.workers if not worker.is_own and worker.is_empty)
        suspects = self._suspects()
        return sorted(empty, key=lambda worker: (worker.node in suspects, not worker.is_ready))

    def processes_by_node(self) -> Counter[str]:
        """The number of processes for any agent on each node, by its id, those that are starting included."""
        return Counter(worker.node for worker in self.workers if not worker.is_own)

    def node_for_process(self) -> str:
        """The id of the node on which the next process for any agent starts; "": any, as Ray knows where claims are free."""
        if self.limits.claims:
            return ""
        return node_for(self.nodes, self.processes_by_node(), self.limits.needs, self._suspects())

    def suspect_node(self, worker: WorkerProcess) -> None:
        """A process was found dead: its node may be gone."""
        self._lost_s[worker.node] = time.monotonic()

    def _suspects(self) -> set[str]:
        """The ids of nodes that may be gone."""
        since_s = time.monotonic() - SUSPECT_S
        return {node for node, lost_s in self._lost_s.items() if lost_s > since_s}

    def passivate(self, agents: Iterable[HostedAgent]) -> list[int]:
        """Take agents out for being idle: no message can be sent to them from now on.

        Returns:
            Their slots, for the caller to pass on to their process.
        """
        slots = []
        for agent in agents:
            self._take_out(agent, IDLE)
            self.events["passivations"] += 1
            slots.append(agent.slot)
        return slots

    def lose(self, worker: WorkerProcess) -> None:
        """End a process that was found dead, and take out all agents in it."""
        for agent in list(worker.agents.values()):
            self._take_out(agent, LOST)
        self.end_process(worker)

    def end_process(self, worker: WorkerProcess) -> None:
        """End an empty process. One that is starting is killed as soon as it runs."""
        if worker.is_over:
            return
        worker.is_over = True
        (self.draining if worker.is_draining else self.workers).remove(worker)
        if worker.is_own and not worker.started.done():
            worker.started.cancel()
        if worker.started.done():
            # At once: what waits for tasks that are done need not give the event loop a turn.
            worker.kill()
        else:
            worker.started.add_done_callback(lambda _: worker.kill())

    def drain(self, worker: WorkerProcess, why: str, *, end: Callable[[], None] | None = None) -> None:
        """Let a process end that is of no use any more: its runs go on, and every other run gets another process.

        Args:
            why: ends a sentence about it.
            end: ends it when the last run in it has ended. None: it is killed then, and one with resources of its own at once,
                since another one may need them.
        """
        self.events["replaced"] += 1
        tell_event("process replaced", "%s gives way to another one, since %s", _name(worker), why, level=logging.INFO)
        if worker.is_own and end is None:
            self.lose(worker)
            return
        self.set_apart(worker)
        worker.on_unused = end or worker.on_unused
        for agent in list(worker.agents.values()):
            if agent.in_use:
                del self.agents[agent.replica]
            else:
                self._take_out(agent, IDLE)
        worker.note_use()

    def drop_link(self, link: Link) -> None:
        """End the process of the agent with that link, which was found dead or does not answer, and all agents in it."""
        for agent in self.all_agents():
            if link in (agent, agent.idle_link):
                self.events["lost"] += 1
                self.losses.update(agent.worker.agents.keys())
                self.suspect_node(agent.worker)
                _tell_lost(agent.worker)
                self.lose(agent.worker)
                return

    def all_agents(self) -> list[HostedAgent]:
        """All agents that live, those in draining processes included."""
        return [*self.agents.values(), *(agent for worker in self.draining for agent in worker.agents.values())]

    def live(self) -> list[tuple[Replica, Link]]:
        """All agents that live, with links that do not count as use."""
        return [(agent.replica, agent.idle_link) for agent in self.all_agents()]

    def counts(self) -> dict[str, int]:
        """`hosts` (processes with agents), `spares` (prepared ones without), `starting` (those that do not run yet, since they
        start or wait for a node), and how often each event has happened."""
        spares = self.spares()
        ready = sum(worker.is_ready for worker in spares)
        starting = len(spares) - ready + sum(worker.is_own and not worker.started.done() for worker in self.workers)
        hosts = len(self.workers) + len(self.draining) - len(spares)
        return {"hosts": hosts, "spares": ready, "starting": starting, **self.events}

    def spare_pids(self) -> list[int]:
        """The process ids of processes in which no agent lives."""
        return [worker.pid for worker in self.workers if not worker.agents and worker.pid]

    def _take_out(self, agent: HostedAgent, reason: str) -> None:
        agent.over = reason
        if self.agents.get(agent.replica) is agent:
            del self.agents[agent.replica]
        del agent.worker.agents[agent.replica]


def _tell_lost(worker: WorkerProcess) -> None:
    names = sorted({replica.agent for replica in worker.agents})
    lived = some_of(names, TOLD_AGENTS)
    tell_event("process lost", "%s is gone, or does not answer, and is ended; agents in it: %s", _name(worker), lived)


def _name(worker: WorkerProcess) -> str:
    process = worker.process()
    return process.name if process is not None else "a process"
