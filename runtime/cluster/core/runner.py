"""A Runner in its own process: how it is built, its host, and what it has ready for later."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import cast

import ray
from ray.exceptions import RayError

from actors.actor import Actor
from actors.definitions.agents import Plugin
from actors.errors import ClusterError, RaygroveError
from actors.errors.user_code import error_text
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.telemetry import tell_event
from actors.layers.services import runner_actor
from actors.layers.updates.rules import serves_any
from actors.layers.updates.versions import RunnerTree, TreeVersion, VersionRecord
from actors.messages.codec import encode
from actors.messages.protocol.base import error_in
from actors.messages.protocol.turns import RecoverTurns
from actors.messages.session import Shard
from actors.rules.queues import least_opened
from actors.rules.sharding import shard_name
from actors.runner.environment import RunnerEnvironment
from runtime.cluster.cluster_watch import ClusterWatch
from runtime.cluster.control_service_watch import ControlServiceWatch
from runtime.cluster.core.actors import actor_name, core_processes, host_name, limiter_name, session_standbys
from runtime.cluster.core.core_host import RECOVERY, TURNS_FIRST_S, CoreHost
from runtime.cluster.core.departures import Departures
from runtime.cluster.core.standby import StandbyPlan
from runtime.cluster.host import end_process
from runtime.cluster.packing.definitions import PackedTree
from runtime.cluster.packing.pickling import from_chunks, unpickle
from runtime.cluster.packing.versions import KeptVersions, PackedVersion, VersionDefinitions
from runtime.cluster.processes.mcp_servers import StartedMcpServers
from runtime.cluster.processes.pool import RayDirectory
from runtime.cluster.processes.ray_processes import RayProcesses
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.transport.clients import CoreHandles, session_ref
from runtime.cluster.transport.pair import pairs_of
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import Handle, current_actor, get_actor, is_restarted
from runtime.cluster.transport.wires import Wires
from runtime.engine.placing import session_names
from runtime.engine.process.tool_threads import ToolThreads
from runtime.engine.store_urls import open_artifact_store
from runtime.observability.figures import of_counts
from runtime.observability.logs.sinks import LogOptions
from runtime.observability.telemetry.setup import process_telemetry
from runtime.settings import Settings
from runtime.transport.options import DirectOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunnerSpec:
    """What a Runner is built of.

    It holds no handles: with handles among an actor's arguments, Ray cannot promise to restart it.

    Attributes:
        plugins: pickled.
        version: what tells the tree from later ones.
        stores: how many stores the deployment has.
    """

    app_name: str
    shard: Shard
    tree: PackedTree
    artifact_store: str | ArtifactStore
    plugins: bytes
    version: TreeVersion
    kept: KeptVersions
    settings: Settings
    logs: LogOptions
    stores: int = 1

    @property
    def name(self) -> str:
        """The actor's name."""
        return actor_name(self.app_name, shard_name("runner", self.shard))


def build_runner(
    spec: RunnerSpec, wires: Wires, nodes: ClusterWatch, term: int = 0, standby: StandbyPlan | None = None
) -> tuple[Actor, RayDirectory, StartedMcpServers, RayTrees, Departures | None]:
    """Build a Runner.

    Args:
        nodes: observed for this process; the directory closes it.
        term: of a Runner that has a standby; 0 in the process that stands by.
        standby: where the Runner has one.

    Returns:
        The Runner, the directory of its agents' processes, the MCP servers of its agents, later versions of its tree, and of the
        first Runner what has processes leave nodes that are about to end.
    """
    settings, app_name = spec.settings, spec.app_name
    sessions = [
        get_actor(actor_name(app_name, name), settings.namespace) for name in session_names(spec.stores, settings.session_shards)
    ]
    limiter = get_actor(limiter_name(app_name), settings.namespace) if settings.model_limits else None
    pairs = pairs_of(sessions, session_standbys(app_name, settings, spec.stores), settings.namespace)
    core = CoreHandles(sessions, [current_actor(settings.namespace)], limiter, wires.options, pairs, stores=spec.stores)
    definitions = VersionDefinitions(spec.version, spec.tree.definitions)
    processes = RayProcesses(
        definitions, spec.tree.modules, core, wires, spec.artifact_store, partial(host_name, app_name), settings, spec.logs
    )
    servers = StartedMcpServers(app_name, settings, wires, spec.logs)
    directory = RayDirectory(spec.tree, processes, settings, nodes, servers)
    trees = RayTrees(spec.kept, directory, definitions)
    metrics = RayMetrics(settings, app_name, spec.name)
    environment = RunnerEnvironment(
        session=session_ref(wires, core, settings.restart_timeout_s),
        directory=directory,
        artifacts=open_artifact_store(spec.artifact_store),
        plugins=unpickle(spec.plugins),
        limits=settings.limits,
        store_timeout_s=settings.store_timeout_s,
        host_limit=lambda: directory.limit,
        telemetry=metrics.telemetry(process_telemetry(settings, app_name)),
        topology=spec.tree.definitions.topology,
        version=spec.version.id,
        is_restarted=is_restarted() or (standby is not None and not term),
        term=term,
        on_replaced=partial(end_process, "this Runner was replaced, so its process ends") if standby is not None else None,
        daily_budget=settings.daily_budget,
        turns_opened_at_once=least_opened(len(sessions), settings.runners),
    )
    runner = runner_actor(environment, spec.name, app_name, spec.shard, spec.kept.record(), trees)
    metrics.start(lambda: of_counts("runner", runner.figures().counts))
    departures = Departures(core_processes(app_name, settings, spec.stores), settings, nodes) if spec.shard.index == 0 else None
    return runner, directory, servers, trees, departures


class RayTrees:
    """Implements `TreeSource`."""

    def __init__(self, kept: KeptVersions, directory: RayDirectory, definitions: VersionDefinitions) -> None:
        self._kept = kept
        self._directory = directory
        self._definitions = definitions
        self._plans: dict[str, Mapping[str, bytes]] = {}

    async def tree(self, version: str) -> RunnerTree:
        """A version that is kept. Raises ClusterError when it is not, or cannot be read or loaded."""
        try:
            packed, plugins = await asyncio.to_thread(self._load, version)
        except RaygroveError:
            raise
        except Exception as error:
            # Loading plugins runs user modules, which may raise anything.
            reason = f"{type(error).__name__}: {error_text(error)}"
            raise ClusterError(f"version {version!r} of the tree cannot be loaded in the Runner: {reason}") from error
        self._plans[version] = packed.plans
        marks: Mapping[str, str] = self._definitions.add(packed.version, packed.tree)
        directory = self._directory.of_version(packed.tree, marks)
        return RunnerTree(packed.tree.definitions.topology, directory, plugins)

    async def newest_record(self) -> VersionRecord:
        """The record that is kept now. Raises ClusterError."""
        return await asyncio.to_thread(self._kept.record)

    async def has_later(self) -> bool:
        """Whether new turns get another version than the first one now. Raises ClusterError."""
        record = await self.newest_record()
        return any(version not in ("", self._definitions.first) for version in record.given)

    def _load(self, version: str) -> tuple[PackedVersion, Sequence[Plugin]]:
        packed: PackedVersion = self._kept.content(version)
        return packed, unpickle(packed.plugins)

    def plan(self, flow: str) -> bytes | None:
        """The definition of a flow in these versions, pickled, by the name of its agent; None where none has it."""
        return next((plans[flow] for plans in reversed(self._plans.values()) if flow in plans), None)

    def retain(self, used: Collection[str], loaded: Collection[str]) -> None:
        """End the agents of versions that are not in use, and processes in which none is left: see TreeSource."""
        versions = self._definitions.of(used)
        self._directory.retain(lambda replica: serves_any(versions, replica.agent, replica.mark))
        self._definitions.forget(loaded)
        self._plans = {version: plans for version, plans in self._plans.items() if version in loaded}


THREADS = 64
"""Blocking calls that may run in a Runner at the same time: hooks of plugins, artifact stores, Ray's own."""

READY = 1
"""Processes for agents that a process which stands by keeps ready: the first turn that goes on needs one."""

WRITTEN_AT_ONCE = 32
"""What many turns ask for in one pass of the event loop is written in parts of so many requests.

Turns that begin together would otherwise stay together: one process works on all of them, and the others wait for it. Once the
Runner has parted them they mostly stay apart. Smaller parts, or more that part them, cost more CPU than they gain.
"""


class RunnerHost(CoreHost):
    """The process of a Runner. Agents fetch the definitions of flows here.

    When Ray has restarted it, it tells its Runner to recover the turns that were running. Where the Runner has a standby, that
    does so at once, and the process that was started again stands by from then on.

    Args:
        chunks: of what builds the actor, of the pickled definitions of the tree's flows by name, of the Session actors as
            PlanPeers, of its WireOptions and its LogOptions, and of its StandbyPlan or None.
    """

    _direct = DirectOptions(requests_at_once=WRITTEN_AT_ONCE)

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        build, plans, peers, wires, logs, plan = from_chunks(chunks)

        self._nodes = ClusterWatch()
        self._control_service: ControlServiceWatch | None = None

        def build_runner() -> Actor:
            built = build(self._wires, self._nodes, self._term, plan)
            self._runner, self._directory, self._mcp_servers, self._trees, self._departures = built
            self._warm_spares = WarmSpares(self._directory, self._trees.has_later)
            return cast(Actor, self._runner)

        super().__init__(build_runner, KeptPlans(plans, peers), wires, logs, "runner", plan, namespace)
        if plan is None and is_restarted():
            self.tell_replaced()
            threading.Thread(target=self._recover, args=(current_actor(namespace),), daemon=True).start()

    async def retire(self) -> list[int]:
        """Become the Runner no more, since the deployment ends. Returns the ids of the processes that stand by here."""
        pids = await super().retire()
        self._warm_spares.end()
        if pids:
            pids += self._directory.spare_pids()
            await self._directory.close()
        return pids

    async def start_spares(self) -> None:
        """Begin to start spare processes for agents."""
        # The first message to a Runner that was started or restarted. Plugins and artifact stores are foreign code, too.
        self._begin()
        self._directory.start_spares()
        self._see_nodes_end()

    def _begin(self) -> None:
        asyncio.get_running_loop().set_default_executor(ToolThreads(THREADS))
        self._control_service = self._control_service or ControlServiceWatch(str(ray.get_runtime_context().gcs_address))

    async def replace_process(self, name: str, why: str) -> None:
        """Replace a process of agents at its own request."""
        self._directory.replace(name, why)

    async def note_end(self, name: str, why: str) -> None:
        """Tell why a process of agents ends itself."""
        tell_event("process lost", "%s ends itself: %s", name, why)

    async def mcp_server(self, raw: bytes) -> str:
        """Have the actor of an MCP server live. Returns its name. Raises DefinitionError, ClusterError."""
        name: str = await self._mcp_servers.start(raw)
        return name

    async def plan(self, name: str) -> bytes | None:
        """The pickled definition of a flow, or None; after a restart it may have to be fetched from a Session actor's process."""
        later: bytes | None = self._trees.plan(name)
        return later if later is not None else await self.plans.fetch(name)

    async def _stand_by(self) -> None:
        self._begin()
        await super()._stand_by()

    async def _take_place(self) -> None:
        self._warm_spares.end()
        self._is_leading.set()
        recovering = asyncio.create_task(self._recover_here())
        try:
            await asyncio.wait((recovering,), timeout=TURNS_FIRST_S)
            self._see_nodes_end()
            await _surely(self._use_versions(self._trees.newest_record()))
            await asyncio.sleep(TURNS_FIRST_S)
            self._directory.start_spares()
            await _surely(asyncio.to_thread(self.plans.copy_from_peers))
            await recovering
        finally:
            recovering.cancel()

    def _see_nodes_end(self) -> None:
        if self._departures is not None and self._is_leading.is_set():
            self._departures.begin()

    async def _prepare(self) -> list[int]:
        self._directory.start_spares(READY)
        await self._runner.prepare()
        await self._directory.spares_started()
        await self._warm_spares.load()
        return [os.getpid(), *self._directory.spare_pids()]

    async def _recover_here(self) -> None:
        raw = encode(RecoverTurns(term=self._term))
        for attempt in count(1):
            if error_in(await self._actor.receive(raw)) is None:
                break
            # The store is away, or a Session actor. A turn that no driver follows would wait for ever.
            await asyncio.sleep(RECOVERY.after_attempts(attempt))

    def _recover(self, actor: Handle) -> None:
        # The agents of the turns that go on need processes, which take longer to start than it takes to find the turns.
        actor.start_spares.remote()
        # Sent until there is a reply: a message that an actor sends to itself while it starts may get lost.
        raw = encode(RecoverTurns())
        asked: list[ray.ObjectRef[bytes]] = []
        for attempt in count(1):
            asked.append(actor.receive.remote(raw))
            # To any of them: each may take longer than this.
            pause_s = RECOVERY.after_attempts(attempt)
            replies, asked = ray.wait(asked, timeout=pause_s)
            if replies and _is_answered(replies[0]):
                break
            if replies:
                # It was lost, or the store is away, or a Session actor. A turn that no driver follows would wait for ever.
                time.sleep(pause_s)
        actor.start_spares.remote()
        self.plans.copy_from_peers()


async def _surely(reading: Awaitable[None]) -> None:
    try:
        await reading
    except Exception:
        # Flows and versions are looked for again when a turn needs one that is not here.
        logger.warning("the Runner that takes the place of a lost one could not read all that is kept", exc_info=True)


def _is_answered(reply: ray.ObjectRef[bytes]) -> bool:
    try:
        return error_in(ray.get(reply)) is None
    except RayError:
        return False


LOOK_FOR_UPDATE_S = 5.0
"""How often it is looked whether the deployment was updated."""


class WarmSpares:
    """Has spare processes load the code of the first version, as long as new turns get that one.

    To import a user's modules takes longer than all else that a turn waits for when its Runner is lost. Agents of a later version
    could not live in a process that has done so.

    Args:
        has_later: says whether new turns get a later version. Raises ClusterError.
    """

    def __init__(self, directory: RayDirectory, has_later: Callable[[], Awaitable[bool]]) -> None:
        self._directory = directory
        self._has_later = has_later
        self._watching: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Have the spares that are ready load the code, and replace them as soon as there is a later version."""
        self.end()
        if not await self._was_updated():
            await self._directory.load_spares()
            self._watching = asyncio.create_task(self._replace_after_update())

    def end(self) -> None:
        """Look for updates no more: a Runner that stands by no longer gets them by message."""
        if self._watching is not None:
            self._watching.cancel()

    async def _replace_after_update(self) -> None:
        was_updated = False
        while not was_updated:
            await asyncio.sleep(LOOK_FOR_UPDATE_S)
            was_updated = await self._was_updated()
        self._directory.replace_loaded_spares()

    async def _was_updated(self) -> bool:
        try:
            return await self._has_later()
        except ClusterError as error:
            logger.debug("whether the deployment was updated cannot be read: %s", error)
            return True
