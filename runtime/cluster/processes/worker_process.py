"""What a pool knows of its processes and of the agents that live in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import NamedTuple, Protocol

from actors.errors import ActorLostError
from actors.interfaces.transport import EarlyReply, Link
from actors.layers.trees.process_groups import ProcessGroup, Replica
from runtime.cluster.rules.process_choice import Load

CANCELLED_S = 2.0
"""An agent counts as in use for this long after a caller was cancelled, since it needs time to stop the run."""

RECYCLE_AFTER = 64
"""Recycle an empty process after this many agents have left it, to drop module state that user code left in it."""


class Activated(NamedTuple):
    """What a process says of itself when it is prepared, or an agent is activated.

    Attributes:
        memory_bytes: how much memory it has for itself; 0: unknown.
        node: the id of its node; "": unknown.
    """

    pid: int
    memory_bytes: int = 0
    node: str = ""


class AgentProcess(Protocol):
    """A process in which agents can live.

    Attributes:
        name: by which it asks to be replaced.
    """

    name: str

    async def prepare(self) -> Activated:
        """Load what agents will need.

        Raises:
            ActorLostError: the process is gone, or does not answer.
            ClusterError: something cannot be loaded there.
        """
        ...

    async def load(self, agent: str) -> None:
        """Load the code of an agent, so that its activation need not. Raises as `activate` does."""
        ...

    async def activate(self, slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        """Passivate the agents in the slots `leaving`, then activate another one.

        Args:
            slot: messages reach the agent by this number. The first is 0, and each is used once.
            agent: its name; of one that an update has changed, with its mark: see Replica.

        Raises:
            ActorLostError: the process is gone, or does not answer.
            ClusterError: the agent's definition cannot be loaded there.
        """
        ...

    def passivate(self, slots: Sequence[int]) -> None:
        """Stop agents, without waiting for it."""
        ...

    def link(self, agent: str, slot: int) -> Link:
        """A link to an agent that lives in the process."""
        ...

    def kill(self) -> None:
        """End the process at once, and every agent in it."""
        ...


class ProcessSource(Protocol):
    """Starts processes for a pool."""

    async def start(self, group: ProcessGroup | None, node: str = "", *, is_spare: bool = False) -> AgentProcess:
        """Start a process for a group, or with None one in which any agent can live.

        Args:
            node: the id of the node on which it should run; "": any.
            is_spare: no agent waits for it. Where processes claim resources it starts on the node of this process.

        Raises:
            ActorLostError: the process was lost as soon as it was started.
            ClusterError: it cannot be started; a PlacementError says that no node has what the group asks for.
        """
        ...

    def is_free(self, group: ProcessGroup | None, *, is_spare: bool = False) -> Awaitable[bool]:
        """Whether a node on which such a process may start has free now what it claims."""
        ...


class HostedAgent:
    """Implements `Link`: the link to an agent that lives in a process, which counts how much the agent is used.

    The reply to an Invoke is the end of a run, so an agent is in use while any message to it is unanswered.

    Attributes:
        leader: the replica that leads its process group; agents with the same leader share a process.
        idle_link: a link to the same actor that does not count as use.
        in_use: messages without a reply.
        used_s: when the last reply came, or when it was activated, by the monotonic clock.
        over: why it does not live any more; "" while it does.
    """

    def __init__(self, replica: Replica, leader: Replica, worker: WorkerProcess, slot: int, link: Link) -> None:
        self.replica = replica
        self.leader = leader
        self.worker = worker
        self.slot = slot
        self.idle_link = link
        self.in_use = 0
        self.used_s = time.monotonic()
        self.over = ""

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply. Raises ActorLostError."""
        if self.over:
            raise ActorLostError(f"agent {self.replica.agent!r}", self.over)
        self.in_use += 1
        try:
            reply = await self.idle_link.send(raw, once=once, early=early)
        except asyncio.CancelledError:
            # The run goes on in the process until the agent gets a cancel message, or is found not to answer.
            asyncio.get_running_loop().call_later(CANCELLED_S, self._answered)
            raise
        except BaseException:
            self._answered()
            raise
        self._answered()
        return reply

    def _answered(self) -> None:
        self.in_use -= 1
        self.used_s = time.monotonic()
        self.worker.note_use()


class WorkerProcess:
    """One process of a pool and the agents in it. It may still be starting.

    Attributes:
        group: the process group for which it was started, which asks for something that other processes do not have; None: any
            agent may live in it.
        node: the id of its node, as far as it is known; until it runs there it may still come to another one.
        makes_room: idle processes may be ended, so that it gets what they hold.
        lacks_resources: what its group asks for was not free.
        arriving: the leaders of agents that are being activated in it.
        activations: agents activated in it so far, which is also the next slot.
        is_ready: it has loaded what agents need.
        is_draining: it takes no agents any more, and ends with the last run in it.
        is_over: it is lost, or was ended.
        on_unused: called when no agent in it is in use any more, while it drains.
        mark: of the agents that live or have lived in it, or whose code it has loaded, see Replica: no others do, since modules
            stay loaded. None: there is none.
        pid: its process id; 0 until it is known.
        memory_bytes: what it used at the last activation.
    """

    def __init__(
        self, started: asyncio.Task[AgentProcess], group: ProcessGroup | None, node: str = "", *, makes_room: bool = False
    ) -> None:
        self.started = started
        self.group = group
        self.node = node
        self.makes_room = makes_room
        self.lacks_resources = False
        self.agents: dict[Replica, HostedAgent] = {}
        self.arriving: list[Replica] = []
        self.activations = 0
        self.is_ready = False
        self.is_draining = False
        self.is_over = False
        self.on_unused: Callable[[], None] = lambda: None
        self.mark: str | None = None
        self.pid = 0
        self.memory_bytes = 0

    @property
    def is_own(self) -> bool:
        """It was started for one process group."""
        return self.group is not None

    def note(self, told: Activated) -> None:
        """Keep what the process says of itself."""
        self.pid, self.memory_bytes = told.pid, told.memory_bytes
        self.node = told.node or self.node

    @property
    def is_empty(self) -> bool:
        """No agent lives in it, and none is being activated."""
        return not self.agents and not self.arriving

    @property
    def is_worn(self) -> bool:
        """So many agents have left it that it is to be replaced when it is empty."""
        return self.activations - len(self.agents) >= RECYCLE_AFTER

    def takes(self, mark: str) -> bool:
        """True when agents with that mark may live in it."""
        return self.mark is None or self.mark == mark

    def holds(self, leader: Replica) -> bool:
        """True when an agent with that leader lives in it, or is being activated."""
        return leader in self.arriving or any(agent.leader == leader for agent in self.agents.values())

    def idle(self, wanted: Container[Replica]) -> list[HostedAgent]:
        """Its agents that are not in use, and not in `wanted` either."""
        return [agent for agent in self.agents.values() if not agent.in_use and agent.replica not in wanted]

    def load(self, wanted: Container[Replica], newcomer: Replica | None = None, memory_share: int = 0) -> Load:
        """The process' load; an agent in `wanted` counts as in use.

        Args:
            newcomer: the leader of an agent that may move in.
            memory_share: bytes that the process may use; 0: as many as it likes.
        """
        living = len(self.arriving) + len(self.agents)
        return Load(
            has_sibling=newcomer is not None and self._has_replica_of(newcomer.agent),
            is_short=0 < memory_share < self.memory_bytes,
            in_use=living - len(self.idle(wanted)),
            agents=living,
            used_s=max((agent.used_s for agent in self.agents.values()), default=0.0),
        )

    def _has_replica_of(self, leader: str) -> bool:
        leaders = (*self.arriving, *(agent.leader for agent in self.agents.values()))
        return any(each.agent == leader for each in leaders)

    def note_use(self) -> None:
        """Look whether any agent in it is in use, while it drains."""
        if self.is_draining and not any(agent.in_use for agent in self.agents.values()):
            self.on_unused()

    def process(self) -> AgentProcess | None:
        """The process, if it has been started."""
        has_started = self.started.done() and not self.started.cancelled() and self.started.exception() is None
        return self.started.result() if has_started else None

    def kill(self) -> None:
        """End the process, if it has been started."""
        process = self.process()
        if process is not None:
            process.kill()
