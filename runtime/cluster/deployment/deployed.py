"""A deployment on Ray, as every driver of it sees it: the one that has started it, and those that have joined."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from actors.errors import ActorLostError
from actors.interfaces.stores import ArtifactStore
from actors.messages.protocol.base import Statistics
from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.rules.capacity.sharding import all_shards, shard_name
from runtime.cluster.packing.chunks import packed_plan
from runtime.cluster.transport.clients import limiter_ref, runner_ref, session_ref
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.ray_actors import define, fill, names
from runtime.settings import Settings


@dataclass(frozen=True)
class DeploymentInfo:
    """What a driver has to know that joins a deployment.

    Attributes:
        settings: those with which the deployment was started.
        artifact_store: where artifacts last.
        auto_create_session: what turns do that do not say it themselves.
    """

    settings: Settings
    artifact_store: str | ArtifactStore
    auto_create_session: bool


class RayDeployment:
    """Clients of a deployment's actors, and the end of them all.

    Args:
        settings: of this driver.

    Attributes:
        hosts: the actors that end with `kill`, by name.
    """

    session: SessionRef
    runner: RunnerRef
    limiter: LimiterRef | None = None
    _runner_hosts: Sequence[Handle]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.hosts: dict[str, Handle] = {}

    def meet(self, sessions: Sequence[Handle], runners: Sequence[Handle], permits: Handle | None, settings: Settings) -> None:
        """Make the clients, as the deployment's settings want them."""
        patience_s, max_bytes = settings.restart_timeout_s, settings.max_message_bytes
        self.session = session_ref(sessions, patience_s, max_bytes)
        self.runner = runner_ref(runners, patience_s, max_bytes)
        self.limiter = limiter_ref(permits, patience_s) if permits is not None else None
        self._runner_hosts = runners

    async def define(self, name: str, plan: Any) -> None:
        """Send the definition of a flow to where all agents find it."""
        pickled = packed_plan(plan.name, plan)
        await asyncio.gather(*(define(runner, name, pickled) for runner in self._runner_hosts))

    def fill(self) -> None:
        """Have processes stand ready for agents, in the background."""
        for runner in self._runner_hosts:
            fill(runner)

    async def answers(self) -> None:
        """See that all of them answer. Raises TimeoutError, ActorLostError."""
        async with asyncio.timeout(self.settings.start_timeout_s):
            await asyncio.gather(*(actor.statistics() for actor in self._actors()))

    def _actors(self) -> list[SessionRef | RunnerRef | LimiterRef]:
        """Clients of all that was started with the deployment, in the order in which they stop."""
        return [self.runner, self.session, *([self.limiter] if self.limiter is not None else [])]

    async def halt(self) -> list[int]:
        """Have all actors stop what they do. Returns their process ids."""
        pids: list[int] = []
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self.settings.stop_timeout_s):
                everybody = _all(*await asyncio.gather(*(actor.statistics() for actor in self._actors())))
                pids = [pid for each in everybody for pid in (each.pid, *each.spare_pids) if pid]
        for actor in self._actors():
            with suppress(ActorLostError, TimeoutError):
                async with asyncio.timeout(self.settings.stop_timeout_s):
                    await actor.stop()
        return pids

    async def kill(self, pids: Sequence[int] = ()) -> None:
        """End the actors as they are, and wait until their names are free and the processes on this machine have ended."""
        for handle in self.hosts.values():
            ray.kill(handle)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.stop_timeout_s):
                # Neither Ray nor the kernel tells when a process that is not a child has ended: it has to be asked for.
                while self._are_named() or any(_is_alive(pid) for pid in pids):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        self.hosts.clear()

    def _are_named(self) -> bool:
        return any(name in self.hosts for _, name in names(self.settings.namespace)) if self.hosts else False


class DeployedEngine:
    """What the engines of a deployment on Ray have in common, whoever has started it."""

    _deployed: RayDeployment

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor."""
        return self._deployed.session

    @property
    def runner(self) -> RunnerRef:
        """A client of the Runner."""
        return self._deployed.runner

    @property
    def limiter(self) -> LimiterRef | None:
        """A client of the actor that limits models; None where none is limited."""
        return self._deployed.limiter

    async def define(self, name: str, plan: Any) -> None:
        """Send the definition of a flow to where all agents find it."""
        await self._deployed.define(name, plan)


def actor_name(app_name: str, part: str) -> str:
    """The name under which `ray.get_actor` finds an actor of an app, such as `<app>/session`."""
    return f"{app_name}/{part}"


def actor_names(app_name: str, part: str, number: int) -> list[str]:
    """The names of several actors of a kind: `<app>/session-0` and so on; of one alone `<app>/session`."""
    return [actor_name(app_name, shard_name(part, share)) for share in all_shards(number)]


def permits_name(app_name: str) -> str:
    """The name under which `ray.get_actor` finds the actor that limits models: `<app>/limits`."""
    return actor_name(app_name, "limits")


def host_name(app_name: str, which: str) -> str:
    """The name under which `ray.get_actor` finds a process in which agents live: `<app>/host/<which>`."""
    return f"{app_name}/host/{which}"


def _all(*statistics: Statistics) -> list[Statistics]:
    return [each for one in statistics for each in (one, *_all(*one.agents), *_all(*one.parts))]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
