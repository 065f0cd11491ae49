"""The engine without Ray: the same actor classes in the caller's process, for unit tests and notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.rate_limited_model import LimiterClient
from actors.definitions.tree import AgentTree
from actors.definitions.tree.process_groups import Replica, place_of
from actors.errors import DefinitionError
from actors.interfaces.plans import PlanSource, no_plans
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.limiter.actor import LimiterActor
from actors.messages.codec import encode
from actors.messages.protocol.base import Stop
from actors.messages.session import SessionKey, Shard
from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.refs.sharded import runner_client, session_client
from actors.rules.capacity.sharding import all_shards, shard_name
from actors.runner.actor import RunnerActor
from actors.session.actor import SessionActor, SessionEnvironment
from runtime.engine.deployment import Deployment, model_names, obstacles
from runtime.engine.flow_registry import FlowRegistry
from runtime.engine.store_urls import open_artifact_store, open_memory_store, open_session_store
from runtime.models.registry import resolve


class LocalLink:
    """A way to an actor in this process. Messages are encoded all the same, so that nothing is shared by accident."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        """Deliver a message and return the reply."""
        return await self._actor.receive(raw)


class LocalDirectory:
    """Makes agents' actors live in this process."""

    def __init__(
        self,
        tree: AgentTree,
        session: SessionRef,
        artifacts: ArtifactStore,
        plans: PlanSource = no_plans,
        gate: LimiterClient | None = None,
    ) -> None:
        self._tree = tree
        self._gate = gate
        self._plans = plans
        self._session = session
        self._artifacts = artifacts
        self._links: dict[Replica, LocalLink] = {}
        self._activations = 0
        self.obstacles: Mapping[str, tuple[str, str]] = obstacles(model_names(tree))
        self.runner: RunnerRef | None = None

    async def link(self, agent: str, key: SessionKey) -> Link:
        """A way to the agent's actor that serves a session, which is made if it does not live."""
        place = place_of(self._tree.homes, agent, key)
        link = self._links.get(place)
        if link is None:
            actor = AgentActor(
                self._tree.spec(agent),
                self._session,
                lambda: self.runner,
                self._artifacts,
                resolve,
                plans=self._plans,
                gate=self._gate,
            )
            link = self._links[place] = LocalLink(actor)
            self._activations += 1
        return link

    def forget(self, agent: str, link: Link) -> None:
        """Drop an agent's actor."""
        self._links = {place: other for place, other in self._links.items() if other is not link}

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        return [(str(place), link) for place, link in self._links.items()]

    def counts(self) -> Mapping[str, int]:
        """How many agents live. All do in this process, and none is ever put to sleep."""
        return {"hosts": 0, "spares": 0, "activations": self._activations, "passivations": 0, "shared": 0}

    def spare_pids(self) -> Sequence[int]:
        """None: there are no other processes."""
        return ()

    async def close(self) -> None:
        """Stop every agent's actor."""
        for _, link in self.live():
            await link.send(encode(Stop()))
        self._links.clear()


class LocalEngine:
    """Implements `runtime.engine.Engine`."""

    session: SessionRef
    runner: RunnerRef
    permits: LimiterRef | None = None
    lasts = False

    def __init__(self, deployment: Deployment) -> None:
        if deployment.detached:
            raise DefinitionError("a detached deployment lives on a Ray cluster: engine='local' ends with this program")
        self.artifact_store = deployment.artifact_store
        self.auto_create_session = deployment.auto_create_session
        self._deployment = deployment
        self._plans = FlowRegistry(deployment.plans())
        self._gate: LimiterClient | None = None

    def prepare(self) -> None:
        """Nothing has to be done first."""

    async def start(self) -> None:
        """Make the actors."""
        deployment = self._deployment
        threads = ThreadPoolExecutor(deployment.settings.tool_threads, thread_name_prefix="tools")
        asyncio.get_running_loop().set_default_executor(threads)
        model_limits = deployment.settings.model_limits
        if model_limits:
            self.permits = LimiterRef(LocalLink(LimiterActor(model_limits)))
            self._gate = LimiterClient(self.permits, model_limits)
        self.session = session_client([self._made_session(shard) for shard in all_shards(deployment.settings.session_shards)])
        self.runner = runner_client([self._made_runner(shard) for shard in all_shards(deployment.settings.runners)])

    def _made_session(self, shard: Shard) -> SessionRef:
        deployment = self._deployment
        settings = deployment.settings
        # As on Ray, where each has a copy of stores that are given as objects.
        stores = deployment.session_store, deployment.memory_store
        session_store, memory_store = stores if shard.of == 1 else deepcopy(stores)
        environment = SessionEnvironment(
            open_session_store(session_store, settings),
            deployment.tree.topology,
            memory=open_memory_store(memory_store, settings),
            store_timeout_s=settings.store_timeout_s,
            limits=settings.limits,
        )
        actor = SessionActor(environment, shard_name("session", shard), shard)
        return SessionRef(LocalLink(actor), settings.max_message_bytes)

    def _made_runner(self, share: Shard) -> RunnerRef:
        deployment = self._deployment
        limits = deployment.settings.limits
        artifacts = open_artifact_store(deployment.artifact_store)
        directory = LocalDirectory(deployment.tree, self.session, artifacts, self._plans.find, self._gate)
        actor = RunnerActor(
            self.session,
            directory,
            artifacts,
            shard_name("runner", share),
            plugins=deployment.tree.plugins,
            app=deployment.app_name,
            limits=limits,
            share=share,
        )
        directory.runner = RunnerRef(LocalLink(actor), limits.max_message_bytes)
        return directory.runner

    async def leave(self) -> None:
        """Stop the actors: they are of this process."""
        await self.stop()

    async def define(self, name: str, plan: Any) -> None:
        """Keep the definition of a flow for all agents."""
        self._plans.keep(name, plan)

    async def stop(self) -> None:
        """Stop the actors."""
        await self.runner.stop()
        await self.session.stop()
        if self._gate is not None and self.permits is not None:
            await self._gate.close()
            await self.permits.stop()
