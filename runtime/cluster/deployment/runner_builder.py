"""Builds Runners, in their own processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from ray import cloudpickle

from actors.actor import Actor
from actors.interfaces.stores import ArtifactStore
from actors.messages.event import now_s
from actors.messages.operating.versions import TreeVersion
from actors.messages.session import Shard
from actors.rules.capacity.sharding import shard_name
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from runtime.cluster.deployment.kept_versions import KeptVersions
from runtime.cluster.deployment.names import actor_name, actor_names, host_name, limiter_name
from runtime.cluster.deployment.tree_versions import RayTrees
from runtime.cluster.packing.definitions import PackedTree
from runtime.cluster.packing.versions import VersionDefinitions
from runtime.cluster.processes.directory import RayDirectory
from runtime.cluster.processes.mcp_servers import StartedMcpServers
from runtime.cluster.processes.ray_processes import RayProcesses
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.transport.clients import CoreHandles, session_ref
from runtime.cluster.transport.ray_actors import current_actor, get_actor, is_restarted
from runtime.cluster.transport.wires import Wires
from runtime.engine.store_urls import open_artifact_store
from runtime.observability.logs.options import LogOptions
from runtime.observability.metrics.figures import of_counts
from runtime.observability.telemetry.setup import process_telemetry
from runtime.settings import Settings


@dataclass(frozen=True)
class RunnerSpec:
    """What a Runner is built of.

    It holds no handles: with handles among an actor's arguments, Ray cannot promise to restart it.

    Attributes:
        tree: the agents.
        artifact_store: URL or store.
        plugins: pickled.
        version: what tells the tree from later ones.
        kept: where these are kept.
        logs: what the processes of agents log.
        defined_s: when it was made, in seconds since the epoch: a Runner that is started again has the same agents.
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
    defined_s: float = field(default_factory=now_s)

    @property
    def name(self) -> str:
        """The actor's name."""
        return actor_name(self.app_name, shard_name("runner", self.shard))


def build_runner(spec: RunnerSpec, wires: Wires) -> tuple[Actor, RayDirectory, StartedMcpServers, RayTrees]:
    """Build a Runner.

    Args:
        wires: of its process.

    Returns:
        The Runner, the directory of its agents' processes, the MCP servers of its agents, and later versions of its tree.
    """
    settings, app_name = spec.settings, spec.app_name
    sessions = [get_actor(name, settings.namespace) for name in actor_names(app_name, "session", settings.session_shards)]
    limiter = get_actor(limiter_name(app_name), settings.namespace) if settings.model_limits else None
    core = CoreHandles(sessions, [current_actor(settings.namespace)], limiter, wires.options)
    definitions = VersionDefinitions(spec.version, spec.tree.definitions)
    processes = RayProcesses(
        definitions, spec.tree.modules, core, wires, spec.artifact_store, partial(host_name, app_name), settings, spec.logs
    )
    servers = StartedMcpServers(app_name, settings, wires, spec.logs)
    directory = RayDirectory(spec.tree, processes, settings, servers)
    trees = RayTrees(spec.kept, directory, definitions)
    metrics = RayMetrics(settings, app_name, spec.name)
    environment = RunnerEnvironment(
        session=session_ref(wires, sessions, settings.restart_timeout_s),
        directory=directory,
        artifacts=open_artifact_store(spec.artifact_store),
        plugins=cloudpickle.loads(spec.plugins),
        limits=settings.limits,
        store_timeout_s=settings.store_timeout_s,
        host_limit=directory.limit,
        telemetry=metrics.telemetry(process_telemetry(settings, app_name)),
        topology=spec.tree.definitions.topology,
        version=spec.version.id,
        versions=spec.kept.record(),
        trees=trees,
        defined_s=spec.defined_s,
        is_restarted=is_restarted(),
        daily_budget=settings.daily_budget,
    )
    runner = RunnerActor(environment, spec.name, app_name, spec.shard)
    metrics.start(lambda: of_counts("runner", runner.figures().counts))
    return runner, directory, servers, trees
