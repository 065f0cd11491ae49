"""Makes agents' actors live on the cluster, when they are spoken to first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import ray
from ray import cloudpickle

from actors.actor import Actor
from actors.agent import AgentActor
from actors.agents import Placement
from actors.errors import ActorLostError, ClusterError
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.messages.protocol import Stop
from actors.messages.wire import encode
from actors.runner import RunnerRef
from runtime.cluster.clients import session_ref
from runtime.cluster.definitions import DefinitionBook, spec_of
from runtime.cluster.remote import PAUSE_S, SPREAD, AgentHost, Handle, RayLink, RemotePlans, evict, myself, start
from runtime.cluster.tasks import as_task
from runtime.deployment import open_artifact_store
from runtime.models.registry import resolve
from runtime.settings import Settings


class RayDirectory:
    """Lives in the Runner's process, and starts one Ray actor per agent that is spoken to.

    Args:
        definitions: of all agents.
        sessions: the Session actors.
        artifact_store: URL or store.
        obstacles: see Directory.
        actor_name: gives the name of an agent's actor.
        settings: the deployment's.
    """

    def __init__(
        self,
        definitions: DefinitionBook,
        sessions: Sequence[Handle],
        artifact_store: str | ArtifactStore,
        obstacles: Mapping[str, tuple[str, str]],
        actor_name: Callable[[str], str],
        settings: Settings,
    ) -> None:
        self.obstacles = obstacles
        self._definitions = definitions
        self._sessions = sessions
        self._artifact_store = artifact_store
        self._actor_name = actor_name
        self._settings = settings
        self._runner = myself(settings.namespace)
        self._links: dict[str, RayLink] = {}
        self._starting: dict[str, asyncio.Task[RayLink]] = {}

    async def link(self, agent: str) -> Link:
        """A way to the agent's actor, which is started if it does not live."""
        link = self._links.get(agent)
        if link is not None:
            return link
        if agent not in self._starting:
            self._starting[agent] = asyncio.create_task(self._start(agent))
        try:
            return await asyncio.shield(self._starting[agent])
        finally:
            self._starting.pop(agent, None)

    async def _start(self, agent: str) -> RayLink:
        # Starting a named actor asks Ray's control service and waits for it, so it is done in a thread.
        try:
            handle = await asyncio.to_thread(self._start_blocking, agent)
        except Exception as error:
            # Unpickling runs the user's modules, and Ray has errors of many kinds: for the turn they are one.
            raise ClusterError(f"agent {agent!r} could not be started: {type(error).__name__}: {error}") from error
        link = self._links[agent] = RayLink(handle, f"agent {agent!r}")
        return link

    def _start_blocking(self, agent: str) -> Handle:
        placement = self._definitions.placement(agent)
        name = self._actor_name(agent)
        settings = self._settings
        patience_s = settings.restart_timeout_s
        raw = self._definitions[agent]
        build = partial(build_agent, raw, self._sessions, self._runner, self._artifact_store, name, patience_s)
        resources = ray_options(placement)
        begin = partial(start, AgentHost, name, settings.namespace, settings.max_concurrency, build, settings.tool_threads)
        given_up_s = time.monotonic() + settings.restart_timeout_s
        while True:
            try:
                return begin(**resources)
            except ValueError:
                # The name is still that of an actor which was given up, or whose Runner was lost.
                if time.monotonic() >= given_up_s:
                    raise
                evict(name, settings.namespace)
                time.sleep(PAUSE_S)

    def forget(self, agent: str, link: Link) -> None:
        """The agent's actor is gone, or does not listen; the next message starts another."""
        if self._links.get(agent) is link:
            # Its name is free only when Ray has given it up.
            ray.kill(self._links.pop(agent).handle)

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        return list(self._links.items())

    async def close(self) -> None:
        """Stop every agent's actor."""
        links = list(self._links.values())
        self._links.clear()
        await asyncio.gather(*(self._stop(link) for link in links))

    async def _stop(self, link: RayLink) -> None:
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                await link.send(encode(Stop()))
        ray.kill(link.handle)


def ray_options(placement: Placement) -> dict[str, Any]:
    """A placement in Ray's terms."""
    options: dict[str, Any] = {**SPREAD, "num_cpus": placement.num_cpus}
    if placement.num_gpus:
        options["num_gpus"] = placement.num_gpus
    if placement.memory is not None:
        options["memory"] = placement.memory
    if placement.resources:
        options["resources"] = placement.resources
    if placement.label_selector:
        options["label_selector"] = placement.label_selector
    return options


def build_agent(
    raw: bytes, sessions: Sequence[Handle], runner: Handle, artifact_store: str | ArtifactStore, name: str, patience_s: float
) -> Actor:
    """Make an agent's actor, in its own process."""
    spec = spec_of(raw)
    # When the Runner is lost, so are the runs that it has asked for: nobody waits for it here.
    runner_ref = RunnerRef(RayLink(runner, "the Runner"))
    return AgentActor(
        spec,
        session_ref(sessions, patience_s),
        lambda: runner_ref,
        open_artifact_store(artifact_store),
        resolve,
        name,
        as_task,
        RemotePlans(runner, cloudpickle.loads).find,
    )
