"""The Ray actor in which agents live."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError
from actors.errors.listing import some_of
from actors.interfaces.transport import Replies
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Stop
from runtime.cluster.logs.process import name_output
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.packing.importing import import_alone
from runtime.cluster.processes.worker_process import Activated
from runtime.cluster.ray.process import put_up_title
from runtime.cluster.transport.clients import CoreHandles
from runtime.cluster.transport.wires import Listener, Wires
from runtime.engine.process.collector import look_less_often
from runtime.engine.process.watched_threads import WatchedThreads
from runtime.observability.metrics.figures import Figure, of_agents
from runtime.transport.endpoint import Endpoint

SHOWN_NAMES = 3
"""Agents that the title of a process names."""


class HostedActors(dict[int, AgentActor]):
    """The actors of the agents in a process, by slot.

    Attributes:
        title: the process's, which names them; "" before the first is there.
    """

    title = ""

    def figures(self) -> Iterator[Figure]:
        """The figures of the agents that live in the process."""
        return of_agents((actor.figures() for actor in self.values()), 1 if self else 0)

    def receive(self, raw: bytes, slot: int) -> Coroutine[Any, Any, bytes]:
        """Hand a message to an actor and return its reply."""
        actor = self._actor(slot)
        return actor.receive(raw) if actor is not None else _refuse()

    def begin(self, raw: bytes, slot: int, replies: Replies) -> Coroutine[Any, Any, bytes] | None:
        """Hand a message to an actor that may need no task for it: see Actor.begin."""
        actor = self._actor(slot)
        return actor.begin(raw, replies) if actor is not None else _refuse()

    def _actor(self, slot: int) -> AgentActor | None:
        if self.title:
            # With each message, since calls of Ray's may end at any time: see AgentHost._show_names.
            put_up_title(self.title)
        return self.get(slot)


class Prepared(NamedTuple):
    """A host's reply when it is prepared: its process id, and where it listens; None where messages come over Ray."""

    pid: int
    endpoint: Endpoint | None


class AgentHost:
    """A Ray actor: a process in which agents can live. It has no identity of its own.

    Args:
        build_environment: builds what all agents in it share.
        name: the process's; its agents report under it.
        core: the actors to which its agents will send messages; the only Runner is the one that has started it.
        threads: how many sync tools may run at the same time. asyncio's default, a few more than there are CPUs, would let
            the tools of one session wait for those of another.
    """

    def __init__(
        self,
        build_environment: Callable[[Wires, Callable[[], int], str, Callable[[], Iterable[Figure]]], AgentEnvironment],
        name: str,
        core: CoreHandles,
        threads: int,
    ) -> None:
        self._threads = WatchedThreads(threads, self._ask_for_replacement)
        self._wires = Wires(core.wires)
        self._name = name
        self._core = core
        self._actors = HostedActors()
        self._environment = build_environment(self._wires, lambda: self._threads.left, name, self._actors.figures)
        self._names: dict[int, str] = {}
        self._stopping: set[asyncio.Task[bytes]] = set()
        # Not `self.receive`: Ray wraps the methods of its actors' classes.
        self._listener = Listener(core.wires, self._actors.receive, self._actors.begin)

    def __repr__(self) -> str:
        """Its name, under which Ray's dashboard shows the process: who lives there changes, and Ray asks once."""
        return self._name

    async def endpoint(self) -> Endpoint | None:
        """Where this process listens; None where messages come over Ray."""
        return await self._listener.endpoint()

    async def prepare(self, modules: Sequence[str]) -> Prepared:
        """Load modules, and connect to the peers. Raises ClusterError when it cannot listen."""
        self._threads.use()
        for module in modules:
            # A model whose package is not installed here says so when it is used.
            with suppress(ModuleNotFoundError):
                await asyncio.to_thread(import_alone, module)
        look_less_often()
        await asyncio.gather(*(peer.__ray_ready__.remote() for peer in self._core.awaited()))
        return Prepared(os.getpid(), await self._listener.endpoint())

    async def load(self, packed: bytes) -> None:
        """Load the code of an agent, which may import user modules for seconds. It raises whatever they raise."""
        self._threads.use()
        await asyncio.to_thread(unpack, packed)
        look_less_often()

    async def activate(self, slot: int, packed: bytes, leaving: Sequence[int]) -> tuple[Activated, Endpoint | None]:
        """Stop the agents in the slots `leaving`, and build another one.

        Returns:
            What the pool wants to know, and where this process listens, which may not have been prepared.

        Raises:
            ClusterError: it cannot listen.
        """
        self._threads.use()
        endpoint = await self._listener.endpoint()
        self._stop(leaving)
        # In a thread, since it may import user modules, and the other agents here go on meanwhile.
        self._actors[slot], name = await asyncio.to_thread(self._build, packed)
        if not self._names:
            # Not every process was prepared. While no other agent lives here no run is under way, whose objects would stay.
            look_less_often()
        self._names[slot] = name
        self._show_names()
        return Activated(os.getpid(), _private_bytes()), endpoint

    def _build(self, packed: bytes) -> tuple[AgentActor, str]:
        spec = unpack(packed)
        name_output(self._name, spec.name)
        actor = AgentActor(spec, self._environment, self._name)
        actor.connections = lambda: self._wires.figures(self._listener.statistics())
        return actor, spec.name

    def _show_names(self) -> None:
        """Name the class by its agents: Ray titles the process, as `ps` and `top` show it, by the class of its actor.

        Ray does that when a call of its own ends, with the name from when the call began; so the next message corrects it.
        """
        names = list(self._names.values()) or ["no agent"]
        type(self).__name__ = f"{AgentHost.__name__}[{some_of(names, SHOWN_NAMES)}]"
        self._actors.title = f"ray::{type(self).__name__}"

    def _ask_for_replacement(self) -> None:
        (runner,) = self._core.runners
        runner.replace_process.remote(self._name)

    async def passivate(self, slots: Sequence[int]) -> None:
        """Stop agents, and wait for none of them."""
        self._stop(slots)
        self._show_names()

    def _stop(self, slots: Sequence[int]) -> None:
        for slot in slots:
            del self._names[slot]
            stopping = asyncio.create_task(self._actors.pop(slot).receive(encode(Stop())))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def receive(self, raw: bytes, slot: int = 0) -> bytes:
        """Hand a message to an agent's actor and return its reply. Most processes only ever have one agent, in slot 0."""
        return await self._actors.receive(raw, slot)


async def _refuse() -> bytes:
    """The reply to a message for an agent that has left the process."""
    return encode(ErrorReply(error=ActorLostError.__name__, args=["the agent", "it does not live there any more"]))


def _private_bytes() -> int:
    """The memory that only this process uses; 0 where the kernel does not tell."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
