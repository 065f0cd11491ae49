"""The engine on Ray."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError

from actors.actor import Actor
from actors.agents import AgentSpec
from actors.errors import ActorLostError, ClusterError, DefinitionError, DeploymentExistsError
from actors.interfaces.model import SharedModel
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from actors.messages.protocol import Statistics
from actors.messages.topology import Topology
from actors.runner import RunnerActor, RunnerRef
from actors.session import SessionActor, SessionRef
from runtime.cluster.directory import RayDirectory
from runtime.cluster.remote import Handle, ModelHost, RayLink, RemoteModel, RunnerHost, SessionHost, named, start
from runtime.deployment import Deployment, model_names, obstacles, open_artifact_store, open_memory_store, open_session_store
from runtime.settings import Settings

FOR_EVER = -1
"""How often Ray starts an actor again whose process was lost."""


class RayEngine:
    """Implements `runtime.engine.Engine`.

    Args:
        deployment: what to make live.
        address: of a cluster; None uses the Ray that this process has initialised, or starts a local one, which is then
            shut down with the engine.
    """

    session: SessionRef
    runner: RunnerRef
    _runner_host: Handle

    def __init__(self, deployment: Deployment, address: str | None) -> None:
        store = deployment.artifact_store
        if isinstance(store, str) and store.startswith("memory:"):
            raise DefinitionError(
                f"artifact_store {store!r} is of one process: on Ray use a folder that all nodes see, or s3://, gs://"
            )
        self._deployment = deployment
        self._address = address
        self._owns_ray = False
        self._hosts: dict[str, Handle] = {}
        self._models: dict[int, tuple[SharedModel, Handle]] = {}

    # ------------------------------------------------------------------------------------------------- starting
    def prepare(self) -> None:
        """Start Ray or connect to it, if need be.

        In the main thread, if that is where the runtime is started: only there Ray makes of SIGTERM an orderly exit.
        Otherwise a driver that is told to end leaves processes of a local Ray behind.
        """
        if ray.is_initialized():
            return
        settings = self._deployment.settings
        try:
            if self._address is not None:
                _knock(self._address, settings.start_timeout_s)
            self._init_ray(settings)
        except (OSError, RuntimeError, ValueError) as error:
            where = f"at {self._address!r}" if self._address is not None else "on this machine"
            raise ClusterError(f"no Ray {where} can be used: {error}") from error
        self._owns_ray = True

    def _init_ray(self, settings: Settings) -> None:
        ray.init(
            address=self._address,
            namespace=settings.namespace,
            num_cpus=settings.num_cpus if self._address is None else None,
            include_dashboard=False if self._address is None else None,
            log_to_driver=settings.log_to_driver,
            logging_level=logging.ERROR,
        )

    async def start(self) -> None:
        """Start the Session actor and the Runner."""
        try:
            await asyncio.to_thread(self._start_actors)
            async with asyncio.timeout(self._deployment.settings.start_timeout_s):
                await asyncio.gather(self.session.statistics(), self.runner.statistics())
        except BaseException as error:
            await self._give_up()
            if isinstance(error, TimeoutError):
                raise ClusterError(
                    f"the actors of app {self._deployment.app_name!r} did not answer within "
                    f"{self._deployment.settings.start_timeout_s} s: has the cluster room for them?"
                ) from error
            raise

    def _start_actors(self) -> None:
        deployment = self._deployment
        name = partial(actor_name, deployment.app_name)
        session_host = self._start(
            SessionHost,
            name("session"),
            partial(
                build_session,
                deployment.session_store,
                deployment.memory_store,
                deployment.tree.topology,
                name("session"),
                deployment.settings,
            ),
        )
        specs = {agent.name: self._pickled(deployment.tree.spec(agent.name)) for agent in deployment.tree}
        build_the_runner = partial(
            build_runner,
            name("session"),
            deployment.artifact_store,
            specs,
            model_names(deployment.tree),
            partial(agent_actor_name, deployment.app_name),
            deployment.settings,
            name("runner"),
            _pickled("the plugins cannot travel to the Runner", deployment.tree.plugins),
            deployment.app_name,
        )
        plans = {flow: _pickled_plan(flow, plan) for flow, plan in deployment.plans().items()}
        runner_host = self._start(RunnerHost, name("runner"), build_the_runner, plans)
        self._runner_host = runner_host
        patience_s, max_bytes = deployment.settings.restart_timeout_s, deployment.settings.max_message_bytes
        self.session = SessionRef(RayLink(session_host, "the Session actor", patience_s), max_bytes)
        self.runner = RunnerRef(RayLink(runner_host, "the Runner", patience_s), max_bytes)

    async def define(self, name: str, plan: Any) -> None:
        """Send the definition of a flow to where all agents find it."""
        try:
            await self._runner_host.define.remote(name, _pickled_plan(plan.name, plan))
        except RayActorError as error:
            raise ActorLostError("the Runner", str(error)) from error

    def _start(self, host: type[Any], name: str, *args: Any, restarts: int = FOR_EVER) -> Handle:
        settings = self._deployment.settings
        where = {"resources": settings.core_resources} if settings.core_resources else {}
        try:
            handle = start(host, name, settings.namespace, settings.max_concurrency, *args, max_restarts=restarts, **where)
        except ValueError as error:
            raise DeploymentExistsError(self._deployment.app_name) from error
        self._hosts[name] = handle
        return handle

    def _pickled(self, spec: AgentSpec) -> bytes:
        """An agent's spec and placement as they travel. A model with a state of its own stays in one process for all."""
        if hasattr(spec.model, "adopt") and hasattr(spec.model, "state"):
            spec = replace(spec, model=RemoteModel(self._model_host(spec.model)))
        return _pickled(f"agent {spec.name!r} cannot travel to its actor", (spec, spec.definition.placement))

    def _model_host(self, model: SharedModel) -> Handle:
        if id(model) not in self._models:
            name = actor_name(self._deployment.app_name, f"model-{len(self._models)}")
            # Its state would be gone, so another process would be no replacement.
            handle = self._start(ModelHost, name, model, restarts=0)
            self._models[id(model)] = (model, handle)
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(lambda: model.adopt(_state_of(handle)))
        return self._models[id(model)][1]

    # ------------------------------------------------------------------------------------------------- stopping
    async def stop(self) -> None:
        """Stop all actors, wait until their processes are gone, and shut down a Ray that was started here."""
        pids: list[int] = []
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self._deployment.settings.stop_timeout_s):
                session, runner = await asyncio.gather(self.session.statistics(), self.runner.statistics())
                pids = [each.pid for each in _all(session, runner)]
        for actor in (self.runner, self.session):
            with suppress(ActorLostError, TimeoutError):
                async with asyncio.timeout(self._deployment.settings.stop_timeout_s):
                    await actor.stop()
        await self._give_up(pids)

    async def _give_up(self, pids: list[int] | None = None) -> None:
        await asyncio.to_thread(self._bring_models_home)
        for handle in self._hosts.values():
            ray.kill(handle)
        await self._wait_until_gone(pids or [])
        self._hosts.clear()
        if self._owns_ray:
            await asyncio.to_thread(ray.shutdown)
            self._owns_ray = False

    def _bring_models_home(self) -> None:
        for model, handle in self._models.values():
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(None)
            with suppress(ray.exceptions.RayError):
                model.adopt(_state_of(handle))
        self._models.clear()

    async def _wait_until_gone(self, pids: list[int]) -> None:
        """Wait until the names are free for the next deployment, and the processes on this machine have ended."""
        namespace = self._deployment.settings.namespace
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deployment.settings.stop_timeout_s):
                # Neither Ray nor the kernel tells when a process that is not a child has ended: it has to be asked for.
                while any(_is_named(name, namespace) for name in self._hosts) or any(_is_alive(pid) for pid in pids):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


def _knock(address: str, timeout_s: float) -> None:
    """See that somebody listens at `host:port`. Ray itself would try for minutes. Raises OSError."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=timeout_s).close()


def actor_name(app_name: str, part: str) -> str:
    """The name under which `ray.get_actor` finds an actor of an app: `<app>/session`, `<app>/runner`."""
    return f"{app_name}/{part}"


def agent_actor_name(app_name: str, agent: str) -> str:
    """The name under which `ray.get_actor` finds an agent: `<app>/agent/<name>`."""
    return f"{app_name}/agent/{agent}"


def build_session(
    store: str | SessionStore, memory_store: str | MemoryStore | None, topology: Topology, name: str, settings: Settings
) -> Actor:
    """Make the Session actor, in its own process."""
    return SessionActor(
        open_session_store(store, settings),
        topology,
        name,
        memory=open_memory_store(memory_store, settings),
        limits=settings.limits,
        store_timeout_s=settings.store_timeout_s,
    )


def build_runner(
    session_name: str,
    artifact_store: str | ArtifactStore,
    specs: Mapping[str, bytes],
    models: Mapping[str, str],
    agent_name: Callable[[str], str],
    settings: Settings,
    name: str,
    plugins: bytes,
    app: str,
) -> Actor:
    """Make the Runner, in its own process.

    It finds the Session actor by its name: with a handle among its arguments, Ray could not promise to start it again.
    """
    session = named(session_name, settings.namespace)
    directory = RayDirectory(specs, session, artifact_store, obstacles(models), agent_name, settings)
    return RunnerActor(
        SessionRef(RayLink(session, "the Session actor", settings.restart_timeout_s)),
        directory,
        open_artifact_store(artifact_store),
        name,
        cloudpickle.loads(plugins),
        app,
        settings.limits,
    )


def _all(*statistics: Statistics) -> list[Statistics]:
    return [each for one in statistics for each in (one, *_all(*one.agents))]


def _is_named(name: str, namespace: str) -> bool:
    try:
        ray.get_actor(name, namespace=namespace)
    except ValueError:
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _pickled(refusal: str, value: object) -> bytes:
    """A value as it travels to another process. Raises DefinitionError, which begins with `refusal`."""
    try:
        pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        # What the user has put into a definition decides what pickling raises.
        raise DefinitionError(f"{refusal}: {type(error).__name__}: {error}") from error
    return pickled


def _pickled_plan(flow: str, plan: object) -> bytes:
    return _pickled(f"flow {flow!r} cannot travel to its agents", plan)


def _state_of(model: Handle) -> bytes:
    return cast(bytes, ray.get(model.state.remote()))
