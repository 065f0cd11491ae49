"""A process for agents, as the Runner commands it over Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import ray
from ray.exceptions import RayTaskError

from actors.errors import ActorLostError, ClusterError
from actors.interfaces.transport import Link
from runtime.cluster.handle import Handle
from runtime.cluster.packing.versions import Definitions
from runtime.cluster.processes.agent_host import Prepared
from runtime.cluster.processes.worker_process import Activated
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.wires import ProcessLinks
from runtime.transport.endpoint import Endpoint

T = TypeVar("T")

_NOT_THERE = (
    "Its process imports from the folders that the program has on sys.path, where they exist on its node: install the package "
    "there, or name a folder that is there: Settings(env={'PYTHONPATH': …})"
)


class RayProcess:
    """Implements `runtime.cluster.processes.worker_process.Process` with an AgentHost.

    Args:
        name: the host's.
        handle: the host.
        links: to the agents in it.
        definitions: of all agents.
        modules: slow imports to preload.
        start_timeout_s: how long the host may take to prepare, or to activate an agent.
    """

    def __init__(
        self,
        name: str,
        handle: Handle,
        links: ProcessLinks,
        definitions: Definitions,
        modules: Sequence[str],
        start_timeout_s: float,
    ) -> None:
        self.name = name
        self._links = links
        self._handle = handle
        self._definitions = definitions
        self._modules = modules
        self._start_timeout_s = start_timeout_s

    async def prepare(self) -> Activated:
        """Load what agents will need. Raises ActorLostError, ClusterError."""
        reply: ray.ObjectRef[Prepared] = self._handle.prepare.remote(self._modules)
        prepared = await self._reply("a process for agents", reply)
        self._links.listens_at(prepared.endpoint)
        return prepared.told

    async def load(self, agent: str) -> None:
        """Load the code of an agent. Raises ActorLostError, ClusterError: see `activate`."""
        reply: ray.ObjectRef[None] = self._handle.load.remote(self._definitions[agent])
        await self._reply(_named(agent), reply)

    async def activate(self, slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        """Passivate the agents in the slots `leaving`, then activate another one.

        Raises:
            ActorLostError: the process is gone, or does not answer.
            ClusterError: the agent's definition cannot be loaded there.
        """
        reply: ray.ObjectRef[tuple[Activated, Endpoint | None]] = self._handle.activate.remote(
            slot, self._definitions[agent], leaving
        )
        activated, endpoint = await self._reply(_named(agent), reply)
        self._links.listens_at(endpoint)
        return activated

    async def _reply(self, what: str, reply: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await answered(lambda: reply, what, 0)
        except TimeoutError as error:
            raise ActorLostError(what, f"its process did not answer within {self._start_timeout_s} s") from error
        except RayTaskError as error:
            # Loading runs user modules, so the error may be of any class; the turn fails with one.
            cause = error.cause or error
            hint = f". {_NOT_THERE}" if isinstance(cause, ModuleNotFoundError) else ""
            raise ClusterError(f"{what} could not be started: {type(cause).__name__}: {cause}{hint}") from error

    def passivate(self, slots: Sequence[int]) -> None:
        """Stop agents, without waiting for it."""
        self._handle.passivate.remote(slots)

    def link(self, agent: str, slot: int) -> Link:
        """A link to an agent that lives in the process."""
        return self._links.link(_named(agent), slot=slot)

    def kill(self) -> None:
        """End the process at once, and every agent in it."""
        self._links.forget_process()
        ray.kill(self._handle)


def _named(agent: str) -> str:
    """An agent as errors name it: without the mark of its version."""
    return f"agent {agent.partition('@')[0]!r}"
