"""The process in which agents live: the Ray actor, and what all agents in it share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ray.exceptions import RayTaskError

from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.agent.views import ViewMemory
from actors.errors import ActorLostError, ClusterError, RaygroveError
from actors.errors.hints import some_of
from actors.interfaces.clock import WallClock
from actors.interfaces.stores import ArtifactStore
from actors.layers.flows.definitions.flow import FlowPlans
from actors.layers.interceptors import interceptors
from actors.layers.kinds import agent_actor
from actors.layers.limiter.client import LimiterClient
from actors.layers.mcp.messages import McpServer
from actors.layers.mcp.toolset import McpServers
from actors.layers.means import all_means
from actors.layers.toolsets import OpenToolsets
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Stop
from actors.refs import Ref, RunnerRef
from runtime.cluster.logs import ProcessLogs, ToRunner, name_output
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.packing.pickling import import_alone
from runtime.cluster.processes.worker_process import Activated
from runtime.cluster.ray.nodes import this_address
from runtime.cluster.ray.process import put_up_title
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.tool_tasks import ToolTasks
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, session_ref
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.plans import RemotePlans
from runtime.cluster.transport.ray_actors import Handle, get_actor, this_node
from runtime.cluster.transport.wires import Listener, Wires
from runtime.engine.process.collector import look_less_often
from runtime.engine.process.node_caches import share_node
from runtime.engine.process.process_watch import OwnProcess, ProcessWatch, memory_of
from runtime.engine.process.tool_threads import WatchedThreads
from runtime.engine.process.variables import set_variables
from runtime.engine.store_urls import open_artifact_store
from runtime.models.registry import ModelPool
from runtime.observability.figures import Figure, of_agents
from runtime.observability.logs.sinks import LogOptions
from runtime.observability.telemetry.setup import process_telemetry
from runtime.settings import Settings
from runtime.transport.endpoint import Endpoint

logger = logging.getLogger(__name__)


def build_environment(
    core: CoreHandles,
    artifact_store: str | ArtifactStore,
    settings: Settings,
    log_options: LogOptions,
    wires: Wires,
    threads_left: Callable[[], int],
    name: str,
    figures: Callable[[], Iterable[Figure]],
) -> AgentEnvironment:
    """Build what all agents in a process share: clients of the core actors, artifacts, models, tool tasks, logs and telemetry.

    It sets the environment variables of the settings first: neither definitions nor tools are loaded yet.

    Args:
        threads_left: see AgentEnvironment.
        figures: those of its agents now.
    """
    set_variables(settings.variables)
    restart_timeout_s = settings.restart_timeout_s
    (runner,) = core.runners
    logs = ProcessLogs(log_options, "agents", ToRunner(runner))
    metrics = RayMetrics(settings, log_options.app_name, name)
    metrics.start(figures)
    telemetry = metrics.telemetry(process_telemetry(settings, log_options.app_name))

    async def hand_on() -> None:
        await asyncio.gather(asyncio.to_thread(logs.hand_on), telemetry.flush())

    views = ViewMemory(settings.max_cache_bytes)
    share_node(wires.options.secret, settings.max_cache_bytes, views)
    limiter: LimiterClient | None = None
    if core.limiter is not None:
        limiter = LimiterClient(limiter_ref(wires, core.limiter, restart_timeout_s), settings.model_limits)
    models = ModelPool()
    session = session_ref(wires, core, restart_timeout_s)
    servers = McpServers(FoundMcpServers(runner, wires, settings).find)
    plans = FlowPlans(RemotePlans(runner).find)
    return AgentEnvironment(
        session,
        # A lost Runner takes the runs that it asked for with it, so this link does not wait for its restart.
        RunnerRef(wires.link(runner, "the Runner")),
        open_artifact_store(artifact_store),
        models.resolve,
        offload=ToolTasks(log_options, runner, settings.variables),
        means=all_means(session, servers, plans, WallClock()),
        toolsets=OpenToolsets(),
        interceptors=interceptors(limiter),
        views=views,
        threads_left=threads_left,
        calls_waiting=models.waiting,
        process=OwnProcess(this_address()),
        log_file=logs.path,
        hand_on_logs=hand_on,
        telemetry=telemetry,
    )


class FoundMcpServers:
    """In an agent's process: finds the actors of MCP servers, by the Runner.

    Args:
        runner: has them started.
    """

    def __init__(self, runner: Handle, wires: Wires, settings: Settings) -> None:
        self._runner = runner
        self._wires = wires
        self._settings = settings

    async def find(self, server: McpServer) -> Ref:
        """A client of a server's actor. Raises DefinitionError, ClusterError, ActorLostError."""
        try:
            name: str = await answered(lambda: self._runner.mcp_server.remote(encode(server)), "the Runner", 0)
            handle = await asyncio.to_thread(get_actor, name, self._settings.namespace)
        except RayTaskError as error:
            if isinstance(error.cause, RaygroveError):
                raise error.cause from None
            raise ClusterError(f"MCP server {server.name!r} could not be started: {error.cause or error}") from error
        except ValueError as error:
            raise ActorLostError(f"MCP server {server.name!r}", str(error)) from error
        return Ref(self._wires.link(handle, f"the actor of MCP server {server.name!r}", self._settings.restart_timeout_s))


END_S = 0.5
"""How long a process that ends itself waits until the Runner knows why."""

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

    def _actor(self, slot: int) -> AgentActor | None:
        if self.title:
            # With each message, since calls of Ray's may end at any time: see AgentHost._show_names.
            put_up_title(self.title)
        return self.get(slot)


class Prepared(NamedTuple):
    """A host's reply when it is prepared: what it says of itself, and where it listens; None where messages come over Ray."""

    told: Activated
    endpoint: Endpoint | None


class AgentHost:
    """A Ray actor: a process in which agents can live. It has no identity of its own.

    Args:
        build_environment: builds what all agents in it share.
        name: the process's; its agents report under it.
        core: the actors to which its agents will send messages; the only Runner is the one that has started it.
        threads: how many sync tools may run at the same time. asyncio's default, a few more than there are CPUs, would let
            the tools of one session wait for those of another.
        memory_limit: bytes that the process may use; 0: as many as there are.
    """

    def __init__(
        self,
        build_environment: Callable[[Wires, Callable[[], int], str, Callable[[], Iterable[Figure]]], AgentEnvironment],
        name: str,
        core: CoreHandles,
        threads: int,
        memory_limit: int = 0,
    ) -> None:
        self._threads = WatchedThreads(threads, lambda: self._ask_for_replacement("threads in it do not come back"))
        self._memory_limit = memory_limit
        self._watch: ProcessWatch | None = None
        self._wires = Wires(core.wires)
        self._name = name
        self._core = core
        self._actors = HostedActors()
        self._environment = build_environment(self._wires, lambda: self._threads.left, name, self._actors.figures)
        self._names: dict[int, str] = {}
        self._stopping: set[asyncio.Task[bytes]] = set()
        # Not `self.receive`: Ray wraps the methods of its actors' classes.
        self._listener = Listener(core.wires, self._actors.receive)

    def __repr__(self) -> str:
        """Its name, under which Ray's dashboard shows the process: who lives there changes, and Ray asks once."""
        return self._name

    async def endpoint(self) -> Endpoint | None:
        """Where this process listens; None where messages come over Ray."""
        return await self._listener.endpoint()

    async def prepare(self, modules: Sequence[str]) -> Prepared:
        """Load modules, and connect to the peers. Raises ClusterError when it cannot listen."""
        self._use()
        for module in modules:
            # A model whose package is not installed here says so when it is used.
            with suppress(ModuleNotFoundError):
                await asyncio.to_thread(import_alone, module)
        look_less_often()
        await asyncio.gather(*(peer.__ray_ready__.remote() for peer in self._core.awaited()))
        return Prepared(_told(), await self._listener.endpoint())

    async def load(self, packed: bytes) -> None:
        """Load the code of an agent, which may import user modules for seconds. It raises whatever they raise."""
        self._use()
        await asyncio.to_thread(unpack, packed)
        look_less_often()

    async def activate(self, slot: int, packed: bytes, leaving: Sequence[int]) -> tuple[Activated, Endpoint | None]:
        """Stop the agents in the slots `leaving`, and build another one.

        Returns:
            What the pool wants to know, and where this process listens, which may not have been prepared.

        Raises:
            ClusterError: it cannot listen.
        """
        self._use()
        endpoint = await self._listener.endpoint()
        self._stop(leaving)
        # In a thread, since it may import user modules, and the other agents here go on meanwhile.
        self._actors[slot], name = await asyncio.to_thread(self._build, packed)
        if not self._names:
            # Not every process was prepared. While no other agent lives here no run is under way, whose objects would stay.
            look_less_often()
        self._names[slot] = name
        self._show_names()
        return _told(), endpoint

    def _build(self, packed: bytes) -> tuple[AgentActor, str]:
        spec = unpack(packed)
        name_output(self._name, spec.name)
        actor = agent_actor(spec, self._environment, self._name)
        actor.connections = lambda: self._wires.figures(self._listener.statistics())
        return actor, spec.name

    def _show_names(self) -> None:
        """Name the class by its agents: Ray titles the process, as `ps` and `top` show it, by the class of its actor.

        Ray does that when a call of its own ends, with the name from when the call began; so the next message corrects it.
        """
        names = list(self._names.values()) or ["no agent"]
        type(self).__name__ = f"{AgentHost.__name__}[{some_of(names, SHOWN_NAMES)}]"
        self._actors.title = f"ray::{type(self).__name__}"

    def _use(self) -> None:
        """Have the threads and the watch of the process, from the first call on."""
        self._threads.use()
        if self._watch is None:
            self._watch = ProcessWatch(self._stands_still, self._end, self._memory_limit)

    def _ask_for_replacement(self, why: str) -> None:
        (runner,) = self._core.runners
        runner.replace_process.remote(self._name, why)

    def _stands_still(self, what: str) -> None:
        """Log it, and have every other run get another process. The runs here go on when the loop does."""
        logger.warning("%s", what)
        self._ask_for_replacement("its event loop stands still")

    def _end(self, why: str) -> None:
        """End the process, and with it all its runs. The loop may stand still, so it takes no part in that."""
        (runner,) = self._core.runners
        told = runner.note_end.remote(self._name, why)
        with suppress(Exception):
            told.future().result(timeout=END_S)
        os._exit(1)

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


def _told() -> Activated:
    return Activated(os.getpid(), memory_of(os.getpid()) or 0, this_node())
