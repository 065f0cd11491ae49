"""What all agents in a process share, built in that process."""

from __future__ import annotations

from collections.abc import Callable

from ray import cloudpickle

from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.rate_limited_model import LimiterClient
from actors.interfaces.stores import ArtifactStore
from actors.refs.runner import RunnerRef
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.tool_tasks import as_task
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, session_ref
from runtime.cluster.transport.link import RayLink
from runtime.cluster.transport.proxies import RemotePlans
from runtime.engine.store_urls import open_artifact_store
from runtime.models.registry import resolve
from runtime.settings import Settings


def build_environment(
    core: CoreHandles, artifact_store: str | ArtifactStore, name: str, settings: Settings
) -> Callable[[bytes], Actor]:
    """Build what all agents in a process share.

    Args:
        name: of the process, which its agents' actors report in statistics.

    Returns:
        A function that builds an agent's actor from its packed definition.
    """
    restart_timeout_s = settings.restart_timeout_s
    (own_runner,) = core.runners
    session = session_ref(core.sessions, restart_timeout_s)
    # No timeout: a Runner that is lost has lost its runs too, so an agent of one of them need not wait for it.
    runner = RunnerRef(RayLink(own_runner, "the Runner"))
    artifacts = open_artifact_store(artifact_store)
    plans = RemotePlans(own_runner, cloudpickle.loads)
    limiter: LimiterClient | None = None
    if core.limiter is not None:
        limiter = LimiterClient(limiter_ref(core.limiter, restart_timeout_s), settings.model_limits)

    def build(packed: bytes) -> Actor:
        spec = unpack(packed)
        return AgentActor(spec, session, lambda: runner, artifacts, resolve, name, as_task, plans.find, gate=limiter)

    return build
