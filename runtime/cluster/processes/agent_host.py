"""The processes in which agents live: the Ray actor, and the Runner's way to it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError, ClusterError
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Stop
from runtime.cluster.packing.definitions import spec_of
from runtime.cluster.transport.link import Handle, RayLink, told


class AgentHost:
    """A Ray actor: a process in which agents can live. It has no identity of its own.

    Args:
        build_environment: builds what the agents in it share.
        name: the process's, under which its agents report.
        neighbours: the actors with which they will speak.
        threads: how many sync tools may run at the same time. asyncio's own number, a few more than there are CPUs, would let
            the tools of one session wait for those of another.
    """

    def __init__(
        self, build_environment: Callable[[], AgentEnvironment], name: str, neighbours: Sequence[Handle], threads: int
    ) -> None:
        self._environment = build_environment()
        self._name = name
        self._neighbours = neighbours
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._actors: dict[int, Actor] = {}
        self._leaving: set[asyncio.Task[bytes]] = set()

    async def prepare(self, modules: Sequence[str]) -> int:
        """Load modules, and get to know the neighbours. Returns the process id."""
        self._use_own_threads()
        for module in modules:
            await asyncio.to_thread(importlib.import_module, module)
        await asyncio.gather(*(neighbour.__ray_ready__.remote() for neighbour in self._neighbours))
        return os.getpid()

    async def adopt(self, seat: int, pickled: bytes, leaving: Sequence[int]) -> int:
        """Have an agent live here, under a number. Returns the process id."""
        self._use_own_threads()
        self.let_go(leaving)
        # In a thread: it may import modules of the user's, and others who live here go on meanwhile.
        self._actors[seat] = await asyncio.to_thread(self._build, pickled)
        return os.getpid()

    def _build(self, pickled: bytes) -> Actor:
        return AgentActor(spec_of(pickled), self._environment, self._name)

    def _use_own_threads(self) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="tools")
            asyncio.get_running_loop().set_default_executor(self._executor)

    async def drop(self, seats: Sequence[int]) -> None:
        """Have agents leave."""
        self.let_go(seats)

    def let_go(self, seats: Sequence[int]) -> None:
        """Stop agents, and wait for none of them."""
        for seat in seats:
            stopping = asyncio.create_task(self._actors.pop(seat).receive(encode(Stop())))
            self._leaving.add(stopping)
            stopping.add_done_callback(self._leaving.discard)

    async def receive(self, raw: bytes, seat: int = 0) -> bytes:
        """Hand a message to an agent's actor and return its reply. Most processes only ever have one, who has number 0."""
        actor = self._actors.get(seat)
        if actor is None:
            return encode(ErrorReply(error=ActorLostError.__name__, args=["the agent", "it does not live there any more"]))
        return await actor.receive(raw)


class RayProcess:
    """Implements `runtime.cluster.processes.worker_process.Process`: an AgentHost, as the Runner sees it.

    Args:
        handle: the host.
        definitions: of all agents, pickled.
        modules: what models in the tree will load.
        patience_s: how long the host may take to have an agent live in it.
    """

    def __init__(self, handle: Handle, definitions: Mapping[str, bytes], modules: Sequence[str], patience_s: float) -> None:
        self._handle = handle
        self._definitions = definitions
        self._modules = modules
        self._patience_s = patience_s

    async def prepare(self) -> int:
        """Load what agents will need. Returns the process id."""
        return await self._answer("a process for agents", self._handle.prepare.remote(self._modules))

    async def adopt(self, seat: int, agent: str, leaving: Sequence[int]) -> int:
        """Have an agent live in it, when those that leave are gone. Returns the process id."""
        asked: ray.ObjectRef[int] = self._handle.adopt.remote(seat, self._definitions[agent], leaving)
        return await self._answer(f"agent {agent!r}", asked)

    async def _answer(self, who: str, asked: Awaitable[int]) -> int:
        try:
            async with asyncio.timeout(self._patience_s):
                return await asked
        except RayActorError as error:
            raise ActorLostError(who, told(error)) from error
        except TimeoutError as error:
            raise ActorLostError(who, f"its process did not answer within {self._patience_s} s") from error
        except RayTaskError as error:
            # Loading runs the user's modules: for the turn all their errors are one.
            cause = error.cause or error
            raise ClusterError(f"{who} could not be started: {type(cause).__name__}: {cause}") from error

    def drop(self, seats: Sequence[int]) -> None:
        """Have agents leave, without waiting for it."""
        self._handle.drop.remote(seats)

    def link(self, agent: str, seat: int) -> RayLink:
        """A way to an agent that lives in it."""
        return RayLink(self._handle, f"agent {agent!r}", seat=seat)

    def kill(self) -> None:
        """End it as it is."""
        ray.kill(self._handle)
