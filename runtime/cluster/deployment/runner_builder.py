"""Builds Runners, in their own processes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial

from actors.actor import Actor
from actors.interfaces.stores import ArtifactStore
from actors.layers.services import runner_actor
from actors.layers.updates.versions import TreeVersion
from actors.messages.session import Shard
from actors.rules.capacity.opening_window import least_opened
from actors.rules.capacity.sharding import shard_name
from actors.runner.environment import RunnerEnvironment
from runtime.cluster.cluster_watch import ClusterWatch
from runtime.cluster.core.departures import Departures
from runtime.cluster.core.pairs import pairs_of
from runtime.cluster.core.standby import StandbyPlan
from runtime.cluster.deployment.kept_versions import KeptVersions
from runtime.cluster.deployment.names import actor_name, core_processes, host_name, limiter_name, session_standbys
from runtime.cluster.deployment.tree_versions import RayTrees
from runtime.cluster.packing.definitions import PackedTree
from runtime.cluster.packing.importing import unpickle
from runtime.cluster.packing.versions import VersionDefinitions
from runtime.cluster.processes.directory import RayDirectory
from runtime.cluster.processes.mcp_servers import StartedMcpServers
from runtime.cluster.processes.ray_processes import RayProcesses
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.transport.clients import CoreHandles, session_ref
from runtime.cluster.transport.ray_actors import current_actor, get_actor, is_restarted
from runtime.cluster.transport.wires import Wires
from runtime.engine.placing.actors import session_names
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
        on_replaced=_leave if standby is not None else None,
        daily_budget=settings.daily_budget,
        turns_opened_at_once=least_opened(len(sessions), settings.runners),
    )
    runner = runner_actor(environment, spec.name, app_name, spec.shard, spec.kept.record(), trees)
    metrics.start(lambda: of_counts("runner", runner.figures().counts))
    departures = Departures(core_processes(app_name, settings, spec.stores), settings, nodes) if spec.shard.index == 0 else None
    return runner, directory, servers, trees, departures


def _leave() -> None:
    """End this process, whose standby has become the Runner: Ray starts it again, and it stands by."""
    print("this Runner was replaced, so its process ends", file=sys.__stderr__, flush=True)
    os._exit(1)
