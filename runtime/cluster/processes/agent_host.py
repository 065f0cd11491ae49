"""The Ray actor in which agents live."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Stop
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.transport.link import Handle


class AgentHost:
    """A Ray actor: a process in which agents can live. It has no identity of its own.

    Args:
        build_environment: builds what all agents in it share.
        name: the process's; its agents report under it.
        peers: the actors to which its agents will send messages.
        threads: how many sync tools may run at the same time. asyncio's default, a few more than there are CPUs, would let
            the tools of one session wait for those of another.
    """

    def __init__(
        self, build_environment: Callable[[], AgentEnvironment], name: str, peers: Sequence[Handle], threads: int
    ) -> None:
        self._environment = build_environment()
        self._name = name
        self._peers = peers
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._actors: dict[int, Actor] = {}
        self._stopping: set[asyncio.Task[bytes]] = set()

    async def prepare(self, modules: Sequence[str]) -> int:
        """Load modules, and connect to the peers. Returns the process id."""
        self._use_own_threads()
        for module in modules:
            await asyncio.to_thread(importlib.import_module, module)
        await asyncio.gather(*(peer.__ray_ready__.remote() for peer in self._peers))
        return os.getpid()

    async def activate(self, slot: int, packed: bytes, leaving: Sequence[int]) -> int:
        """Stop the agents in the slots `leaving`, and build another one. Returns the process id."""
        self._use_own_threads()
        self._stop(leaving)
        # In a thread, since it may import user modules, and the other agents here go on meanwhile.
        self._actors[slot] = await asyncio.to_thread(self._build, packed)
        return os.getpid()

    def _build(self, packed: bytes) -> Actor:
        return AgentActor(unpack(packed), self._environment, self._name)

    def _use_own_threads(self) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="tools")
            asyncio.get_running_loop().set_default_executor(self._executor)

    async def passivate(self, slots: Sequence[int]) -> None:
        """Stop agents, and wait for none of them."""
        self._stop(slots)

    def _stop(self, slots: Sequence[int]) -> None:
        for slot in slots:
            stopping = asyncio.create_task(self._actors.pop(slot).receive(encode(Stop())))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def receive(self, raw: bytes, slot: int = 0) -> bytes:
        """Hand a message to an agent's actor and return its reply. Most processes only ever have one agent, in slot 0."""
        actor = self._actors.get(slot)
        if actor is None:
            return encode(ErrorReply(error=ActorLostError.__name__, args=["the agent", "it does not live there any more"]))
        return await actor.receive(raw)
