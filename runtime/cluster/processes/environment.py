"""What all agents in a process share, built in that process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from actors.agent.environment import AgentEnvironment
from actors.agent.views.session_views import ViewMemory
from actors.interfaces.clock import WallClock
from actors.interfaces.stores import ArtifactStore
from actors.layers.flows.definitions.plan import FlowPlans
from actors.layers.interceptors import interceptors
from actors.layers.limiter.client import LimiterClient
from actors.layers.mcp.client import McpServers
from actors.layers.means import all_means
from actors.layers.toolsets.open import OpenToolsets
from actors.refs.runner import RunnerRef
from runtime.cluster.logs.process import ProcessLogs, ToRunner
from runtime.cluster.packing.importing import unpickle
from runtime.cluster.ray.nodes import this_address
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.tool_tasks import ToolTasks
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, session_ref
from runtime.cluster.transport.proxies import FoundMcpServers, RemotePlans
from runtime.cluster.transport.wires import Wires
from runtime.engine.process.node_caches import share_node
from runtime.engine.process.variables import set_variables
from runtime.engine.store_urls import open_artifact_store
from runtime.models.pool import ModelPool
from runtime.observability.logs.options import LogOptions
from runtime.observability.metrics.figures import Figure
from runtime.observability.own_process import OwnProcess
from runtime.observability.telemetry.setup import process_telemetry
from runtime.settings import Settings


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
    plans = FlowPlans(RemotePlans(runner, unpickle).find)
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
