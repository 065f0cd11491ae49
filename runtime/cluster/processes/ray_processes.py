"""The processes of a deployment's agents on Ray, as the Runner starts and commands them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

import ray
from ray.exceptions import RayTaskError

from actors.errors import ActorLostError, ClusterError, RaygroveError
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.layers.trees.process_groups import ProcessGroup
from runtime.cluster.packing.versions import VersionDefinitions
from runtime.cluster.processes.agent_host import AgentHost, Prepared, build_environment
from runtime.cluster.processes.placing import (
    check_shared,
    is_free,
    needs,
    ray_options,
    shared_needs,
    start_placed,
)
from runtime.cluster.processes.worker_process import Activated
from runtime.cluster.transport.clients import CoreHandles
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.peer import Peer
from runtime.cluster.transport.ray_actors import Handle, RayOptions, on_node, only_on, start_actor, this_node
from runtime.cluster.transport.wires import Wires
from runtime.observability.logs.sinks import LogOptions
from runtime.settings import Settings
from runtime.transport.endpoint import Endpoint

T = TypeVar("T")

_NOT_THERE = (
    "Its process imports from the folders that the program has on sys.path, where they exist on its node: install the package "
    "there, or name a folder that is there: Settings(env={'PYTHONPATH': …})"
)


class RayProcess:
    """Implements `runtime.cluster.processes.worker_process.AgentProcess` with an AgentHost.

    Args:
        modules: slow imports to preload.
        start_timeout_s: how long the host may take to prepare, or to activate an agent.
    """

    def __init__(
        self,
        name: str,
        handle: Handle,
        peer: Peer,
        definitions: VersionDefinitions,
        modules: Sequence[str],
        start_timeout_s: float,
    ) -> None:
        self.name = name
        self._peer = peer
        self._handle = handle
        self._definitions = definitions
        self._modules = modules
        self._start_timeout_s = start_timeout_s

    async def prepare(self) -> Activated:
        """Load what agents will need. Raises ActorLostError, ClusterError."""
        reply: ray.ObjectRef[Prepared] = self._handle.prepare.remote(self._modules)
        prepared = await self._reply("a process for agents", reply)
        self._peer.listens_at(prepared.endpoint)
        return prepared.told

    async def load(self, agent: str) -> None:
        """Load the code of an agent. Raises ActorLostError, ClusterError: see `activate`."""
        reply: ray.ObjectRef[None] = self._handle.load.remote(self._definitions[agent])
        await self._reply(_named(agent), reply)

    async def activate(self, slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        """Passivate the agents in the slots `leaving`, then activate another one. Raises ActorLostError, ClusterError."""
        reply: ray.ObjectRef[tuple[Activated, Endpoint | None]] = self._handle.activate.remote(
            slot, self._definitions[agent], leaving
        )
        activated, endpoint = await self._reply(_named(agent), reply)
        self._peer.listens_at(endpoint)
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
        return self._peer.link(_named(agent), slot=slot)

    def kill(self) -> None:
        """End the process at once, and every agent in it."""
        self._peer.forget_process()
        ray.kill(self._handle)


def _named(agent: str) -> str:
    """An agent as errors name it: without the mark of its version."""
    return f"agent {agent.partition('@')[0]!r}"


class RayProcesses:
    """Implements `runtime.cluster.processes.worker_process.ProcessSource` with Ray actors of class AgentHost.

    Args:
        modules: slow imports to preload.
        core: handles of the actors to which agents send messages.
        host_name: gives the name of a process by its number.
    """

    def __init__(
        self,
        definitions: VersionDefinitions,
        modules: Sequence[str],
        core: CoreHandles,
        wires: Wires,
        artifact_store: str | ArtifactStore,
        host_name: Callable[[str], str],
        settings: Settings,
        logs: LogOptions,
    ) -> None:
        self._definitions = definitions
        self._modules = modules
        self._core = core
        self._wires = wires
        self._artifact_store = artifact_store
        self._host_name = host_name
        self._settings = settings
        self._logs = logs
        # Processes of a lost Runner may still have their names, so each Runner begins its names differently.
        self._prefix = uuid.uuid4().hex[:8]
        self._numbers = count(1)

    async def start(self, group: ProcessGroup | None, node: str = "", *, is_spare: bool = False) -> RayProcess:
        """Start a process: see ProcessSource. Raises ActorLostError, ClusterError.

        Where processes claim CPUs a spare starts on the Runner's node, which is used anyway.
        """
        settings = self._settings
        name = self._host_name(f"{self._prefix}-{next(self._numbers)}")
        begin: Callable[..., Handle] = partial(
            start_actor,
            AgentHost,
            name,
            settings.namespace,
            settings.max_concurrency,
            partial(build_environment, self._core, self._artifact_store, settings, self._logs),
            name,
            self._core,
            settings.tool_threads,
            group.placement.memory or 0 if group is not None else 0,
        )
        try:
            if group is None:
                # Starting a named actor waits for Ray's control service, so it is done in a thread.
                if not node:
                    await asyncio.to_thread(check_shared, settings)
                handle = await asyncio.to_thread(begin, **self._options(node, is_spare=is_spare))
            else:
                options = ray_options(needs(group.placement, settings.claimed_cpus))
                handle = await start_placed(partial(begin, **options), group, settings)
        except RaygroveError:
            raise
        except Exception as error:
            # Ray raises many classes, also for options that it refuses; the turn fails with one.
            raise ClusterError(f"a process for agents could not be started: {type(error).__name__}: {error}") from error
        return RayProcess(
            name, handle, self._wires.peer(handle, name), self._definitions, self._modules, settings.start_timeout_s
        )

    async def is_free(self, group: ProcessGroup | None, *, is_spare: bool = False) -> bool:
        """Whether a node on which such a process may start has free now what it claims."""
        asked = needs(group.placement, self._settings.claimed_cpus) if group is not None else shared_needs(self._settings)
        return await is_free(asked, this_node() if is_spare else None)

    def _options(self, node: str, *, is_spare: bool) -> RayOptions:
        options = ray_options(shared_needs(self._settings))
        if node:
            options |= on_node(node)
        if is_spare and self._settings.claimed_cpus > 0:
            options |= only_on(this_node())
        return options
