"""The engine on Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, cast

import ray
from ray import cloudpickle

from actors.actor import Actor
from actors.definitions.tree.process_groups import ProcessGroup
from actors.errors import ClusterError, DefinitionError, DeploymentExistsError
from actors.interfaces.model import SharedModel, name_of
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from actors.limiter.actor import LimiterActor
from actors.messages.codec import decode, encode
from actors.messages.session import ONLY_SHARD, Shard
from actors.messages.topology import Topology
from actors.rules.capacity.sharding import all_shards, shard_name
from actors.runner.actor import RunnerActor
from actors.session.actor import SessionActor, SessionEnvironment
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.deployment.deployed import (
    DeployedEngine,
    DeploymentInfo,
    RayDeployment,
    actor_name,
    actor_names,
    host_name,
    permits_name,
)
from runtime.cluster.packing.chunks import packed, packed_plan, parcel
from runtime.cluster.packing.definitions import PackedDefinitions, bound
from runtime.cluster.processes.directory import RayDirectory
from runtime.cluster.transport.clients import session_ref
from runtime.cluster.transport.hosts import LimiterHost, ModelHost, RunnerHost, SessionHost
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.proxies import RemoteModel
from runtime.cluster.transport.ray_actors import SPREAD, named, start
from runtime.engine.deployment import Deployment, model_names, obstacles, slow_imports
from runtime.engine.store_urls import open_artifact_store, open_memory_store, open_session_store
from runtime.settings import Settings

FOR_EVER = -1
"""How often Ray starts an actor again whose process was lost."""

ANY_NUMBER = 1_000_000
"""Messages at the same time for the actor with which all calls wait: were there no room for one more, none could end."""


class RayEngine(DeployedEngine):
    """Implements `runtime.engine.Engine`: starts a deployment.

    Args:
        deployment: what to make live.
        address: of a cluster; None uses the Ray that this process has initialised, or starts a local one, which is then
            shut down with the engine.
    """

    def __init__(self, deployment: Deployment, address: str | None) -> None:
        store = deployment.artifact_store
        if isinstance(store, str) and store.startswith("memory:"):
            raise DefinitionError(
                f"artifact_store {store!r} is of one process: on Ray use a folder that all nodes see, or s3://, gs://"
            )
        self.artifact_store = deployment.artifact_store
        self.auto_create_session = deployment.auto_create_session
        self.lasts = deployment.detached
        self._deployment = deployment
        self._connection = RayConnection(deployment.settings, address, may_start=not deployment.detached)
        self._deployed = RayDeployment(deployment.settings)
        self._models: dict[int, tuple[SharedModel, Handle]] = {}
        self._binding: Future[PackedDefinitions] | None = None

    # ------------------------------------------------------------------------------------------------- starting
    def prepare(self) -> None:
        """Start Ray or connect to it, if need be."""
        tree = self._deployment.tree
        if ray.is_initialized() or any(map(_is_shared, tree.models.values())):
            # There is nothing to wait for, or Ray has to be there first.
            self._connection.open()
            return
        with ThreadPoolExecutor(1, thread_name_prefix="definitions") as thread:
            self._binding = thread.submit(bound, tree, self._travelling)
            self._connection.open()

    async def start(self) -> None:
        """Start the Session actors and the Runners."""
        settings = self._deployment.settings
        try:
            await asyncio.to_thread(self._start_actors)
            await self._deployed.answers()
            self._deployed.fill()
            # What was not started when its driver has gone never would be.
            await asyncio.gather(*(handle.state.remote() for _, handle in self._models.values()))
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise ClusterError(
                    f"the actors of app {self._deployment.app_name!r} did not answer within "
                    f"{settings.start_timeout_s} s: has the cluster room for them?"
                ) from error
            raise

    def _start_actors(self) -> None:
        deployment = self._deployment
        settings = deployment.settings
        sessions = [self._start_session(share) for share in all_shards(settings.session_shards)]
        self._refuse_another_number()
        permits = self._start_permits() if settings.model_limits else None
        definitions = self._definitions()
        plans = {flow: packed_plan(flow, plan) for flow, plan in deployment.plans().items()}
        runners = [self._start_runner(share, definitions, plans) for share in all_shards(settings.runners)]
        self._deployed.meet(sessions, runners, permits, settings)

    def _start_session(self, share: Shard) -> Handle:
        deployment = self._deployment
        name = actor_name(deployment.app_name, shard_name("session", share))
        build = partial(
            build_session,
            deployment.session_store,
            deployment.memory_store,
            encode(deployment.tree.topology),
            name,
            deployment.settings,
            share,
        )
        terms = DeploymentInfo(deployment.settings, deployment.artifact_store, deployment.auto_create_session)
        return self._start(SessionHost, name, refusal="the stores cannot travel", content=(build, terms), share=share)

    def _start_permits(self) -> Handle:
        name = permits_name(self._deployment.app_name)
        build = partial(LimiterActor, self._deployment.settings.model_limits, name)
        refusal = "the limits of models cannot travel"
        return self._start(LimiterHost, name, refusal=refusal, content=build, max_concurrency=ANY_NUMBER)

    def _refuse_another_number(self) -> None:
        """See that the app does not run with another number of Session actors, by other names. Who starts takes his own first."""
        app, settings = self._deployment.app_name, self._deployment.settings
        with suppress(ValueError):
            named(actor_names(app, "session", 1 if settings.session_shards > 1 else 2)[0], settings.namespace)
            raise DeploymentExistsError(app)

    def _start_runner(self, share: Shard, definitions: PackedDefinitions, plans: Mapping[str, bytes]) -> Handle:
        deployment = self._deployment
        settings = deployment.settings
        name = actor_name(deployment.app_name, shard_name("runner", share))
        build = partial(
            build_runner,
            actor_names(deployment.app_name, "session", settings.session_shards),
            deployment.artifact_store,
            definitions,
            deployment.tree.homes,
            slow_imports(deployment.tree),
            model_names(deployment.tree),
            partial(host_name, deployment.app_name),
            settings,
            name,
            packed("the plugins cannot travel to the Runner", deployment.tree.plugins),
            deployment.app_name,
            share,
        )
        refusal = "the agents cannot travel to the Runner"
        return self._start(RunnerHost, name, settings.namespace, refusal=refusal, content=(build, plans), share=share)

    def _start(
        self,
        host: type[Any],
        name: str,
        *args: str,
        refusal: str,
        content: object,
        restarts: int = FOR_EVER,
        share: Shard = ONLY_SHARD,
        max_concurrency: int | None = None,
    ) -> Handle:
        settings = self._deployment.settings
        pieces = parcel(refusal, content, must_last=self._deployment.detached)
        options: dict[str, Any] = {"max_restarts": restarts}
        if settings.core_resources:
            options["resources"] = settings.core_resources
        if share.of > 1:
            options |= SPREAD
        if self._deployment.detached:
            options["lifetime"] = "detached"
        try:
            handle = start(host, name, settings.namespace, max_concurrency or settings.max_concurrency, *args, *pieces, **options)
        except ValueError as error:
            raise DeploymentExistsError(self._deployment.app_name) from error
        self._deployed.hosts[name] = handle
        return handle

    def _definitions(self) -> PackedDefinitions:
        return self._binding.result() if self._binding is not None else bound(self._deployment.tree, self._travelling)

    def _travelling(self, model: Any) -> Any:
        """A model as it travels. One with a state of its own stays in one process for all."""
        return RemoteModel(self._model_host(model), name_of(model)) if _is_shared(model) else model

    def _model_host(self, model: SharedModel) -> Handle:
        if id(model) not in self._models:
            name = actor_name(self._deployment.app_name, f"model-{len(self._models)}")
            # Its state would be gone, so another process would be no replacement.
            handle = self._start(ModelHost, name, refusal="a model cannot travel to its actor", content=model, restarts=0)
            self._models[id(model)] = (model, handle)
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(lambda: model.adopt(_state_of(handle)))
        return self._models[id(model)][1]

    # ------------------------------------------------------------------------------------------------- leaving
    async def leave(self) -> None:
        """Leave a detached deployment as it is."""
        await asyncio.to_thread(self._let_go)

    async def stop(self) -> None:
        """Stop all actors, wait until their processes are gone, and shut down a Ray that was started here."""
        await self._end(await self._deployed.halt())

    async def _end(self, pids: Sequence[int] = ()) -> None:
        await asyncio.to_thread(self._bring_models_home)
        await self._deployed.kill(pids)
        await asyncio.to_thread(self._connection.close)

    def _let_go(self) -> None:
        self._bring_models_home()
        self._deployed.hosts.clear()
        self._connection.close()

    def _bring_models_home(self) -> None:
        for model, handle in self._models.values():
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(None)
            with suppress(ray.exceptions.RayError):
                model.adopt(_state_of(handle))
        self._models.clear()


def build_session(
    store: str | SessionStore,
    memory_store: str | MemoryStore | None,
    topology: bytes,
    name: str,
    settings: Settings,
    share: Shard,
) -> Actor:
    """Make a Session actor, in its own process."""
    environment = SessionEnvironment(
        open_session_store(store, settings),
        decode(topology, Topology),
        memory=open_memory_store(memory_store, settings),
        store_timeout_s=settings.store_timeout_s,
        limits=settings.limits,
    )
    return SessionActor(environment, name, share)


def build_runner(
    session_names: Sequence[str],
    artifact_store: str | ArtifactStore,
    definitions: PackedDefinitions,
    homes: Mapping[str, ProcessGroup],
    model_modules: Sequence[str],
    models: Mapping[str, str],
    name_host: Callable[[str], str],
    settings: Settings,
    name: str,
    plugins: bytes,
    app: str,
    share: Shard,
) -> tuple[Actor, Callable[[], None]]:
    """Make a Runner, in its own process. Returns it, and what has processes stand ready for its agents.

    It finds the Session actors by their names: with handles among its arguments, Ray could not promise to start it again.
    """
    sessions = [named(session_name, settings.namespace) for session_name in session_names]
    permits = named(permits_name(app), settings.namespace) if settings.model_limits else None
    directory = RayDirectory(
        definitions, homes, model_modules, sessions, permits, artifact_store, obstacles(models), name_host, settings
    )
    runner = RunnerActor(
        session_ref(sessions, settings.restart_timeout_s),
        directory,
        open_artifact_store(artifact_store),
        name,
        cloudpickle.loads(plugins),
        app,
        settings.limits,
        share,
    )
    return runner, directory.fill


def _is_shared(model: Any) -> bool:
    return hasattr(model, "adopt") and hasattr(model, "state")


def _state_of(model: Handle) -> bytes:
    return cast(bytes, ray.get(model.state.remote()))
