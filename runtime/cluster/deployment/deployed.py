"""The part of an engine on Ray that is the same for a driver that starts a deployment and for one that joins it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import ray

from actors.definitions.flows import FlowPlan
from actors.errors import ActorLostError
from actors.interfaces.stores import ArtifactStore
from actors.messages.protocol.base import Statistics
from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from runtime.cluster.packing.chunks import pickled_plan
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, runner_ref, session_ref
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.ray_actors import keep_plan, list_named_actors, start_spares
from runtime.settings import Settings


@dataclass(frozen=True)
class DeploymentInfo:
    """What a driver needs to join a deployment.

    Attributes:
        settings: the settings with which the deployment was started.
        artifact_store: URL or store of artifacts.
        auto_create_session: what turns do that do not say it themselves.
    """

    settings: Settings
    artifact_store: str | ArtifactStore
    auto_create_session: bool


class DeployedEngine:
    """The clients of a deployment's actors, and how the actors are ended.

    Args:
        settings: of this driver.

    Attributes:
        session, runner: clients of the Session actors and the Runners, once `connect` was called.
        permits: a client of the actor that limits models; None where no model is limited.
    """

    session: SessionRef
    runner: RunnerRef
    limiter: LimiterRef | None = None

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runners: Sequence[Handle] = ()

    def connect(self, core: CoreHandles, settings: Settings) -> None:
        """Make the clients.

        Args:
            settings: the deployment's.
        """
        restart_timeout_s, max_bytes = settings.restart_timeout_s, settings.max_message_bytes
        self.session = session_ref(core.sessions, restart_timeout_s, max_bytes)
        self.runner = runner_ref(core.runners, restart_timeout_s, max_bytes)
        self.limiter = limiter_ref(core.limiter, restart_timeout_s) if core.limiter is not None else None
        self._runners = core.runners

    async def define(self, name: str, plan: FlowPlan) -> None:
        """Send the definition of a flow to all Runners, where agents fetch it. Raises DefinitionError, ActorLostError."""
        pickled = pickled_plan(plan.name, plan)
        await asyncio.gather(*(keep_plan(runner, name, pickled) for runner in self._runners))

    def start_spares(self) -> None:
        """Have all Runners start spare processes for agents, in the background."""
        for runner in self._runners:
            start_spares(runner)

    async def wait_for_replies(self) -> None:
        """Wait until all actors reply. Raises TimeoutError, ActorLostError."""
        async with asyncio.timeout(self._settings.start_timeout_s):
            await asyncio.gather(*(actor.statistics() for actor in self._clients()))

    async def stop_actors(self) -> list[int]:
        """Have all actors stop their work. Returns their process ids."""
        pids: list[int] = []
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                everything = _flat(*await asyncio.gather(*(actor.statistics() for actor in self._clients())))
                pids = [pid for each in everything for pid in (each.pid, *each.spare_pids) if pid]
        for actor in self._clients():
            with suppress(ActorLostError, TimeoutError):
                async with asyncio.timeout(self._settings.stop_timeout_s):
                    await actor.stop()
        return pids

    async def kill_actors(self, handles: Mapping[str, Handle], pids: Sequence[int] = ()) -> None:
        """End actors at once, and wait until their names are free and the processes on this machine have ended.

        Args:
            handles: the actors by name.
            pids: of all processes to wait for.
        """
        for handle in handles.values():
            ray.kill(handle)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                # Neither Ray nor the kernel notifies when a process ends that is not a child, so both are polled.
                while self._any_is_named(handles) or any(_is_alive(pid) for pid in pids):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    def _clients(self) -> list[SessionRef | RunnerRef | LimiterRef]:
        """Clients of the core actors, in the order in which these stop."""
        return [self.runner, self.session, *([self.limiter] if self.limiter is not None else [])]

    def _any_is_named(self, handles: Mapping[str, Handle]) -> bool:
        return any(name in handles for _, name in list_named_actors(self._settings.namespace)) if handles else False


def _flat(*statistics: Statistics) -> list[Statistics]:
    return [each for one in statistics for each in (one, *_flat(*one.agents), *_flat(*one.parts))]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
