"""What all agents in a process share, built in that process."""

from __future__ import annotations

from ray import cloudpickle

from actors.agent.environment import AgentEnvironment
from actors.agent.rate_limited_model import LimiterClient
from actors.interfaces.stores import ArtifactStore
from actors.refs.runner import RunnerRef
from runtime.cluster.tool_tasks import as_task
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, session_ref
from runtime.cluster.transport.link import RayLink
from runtime.cluster.transport.proxies import RemotePlans
from runtime.engine.store_urls import open_artifact_store
from runtime.models.registry import resolve
from runtime.settings import Settings


def build_environment(core: CoreHandles, artifact_store: str | ArtifactStore, settings: Settings) -> AgentEnvironment:
    """Build what all agents in a process share: clients of the core actors, the artifact store, models and tool tasks."""
    restart_timeout_s = settings.restart_timeout_s
    (runner,) = core.runners
    limiter: LimiterClient | None = None
    if core.limiter is not None:
        limiter = LimiterClient(limiter_ref(core.limiter, restart_timeout_s), settings.model_limits)
    return AgentEnvironment(
        session_ref(core.sessions, restart_timeout_s),
        # A lost Runner takes the runs that it asked for with it, so this link does not wait for its restart.
        RunnerRef(RayLink(runner, "the Runner")),
        open_artifact_store(artifact_store),
        resolve,
        RemotePlans(runner, cloudpickle.loads).find,
        offload=as_task,
        limiter=limiter,
    )
