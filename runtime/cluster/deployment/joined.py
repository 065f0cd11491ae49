"""A deployment on Ray that another driver has started."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from actors.errors import ActorLostError, ClusterError, DeploymentNotFoundError
from actors.errors.suggestions import did_you_mean
from actors.interfaces.stores import ArtifactStore
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.deployment.deployed import (
    DeployedEngine,
    DeploymentInfo,
    RayDeployment,
    actor_name,
    actor_names,
    permits_name,
)
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.ray_actors import named, names, terms_of
from runtime.settings import Settings


class JoinedEngine(DeployedEngine):
    """Implements `runtime.engine.Engine` for a driver that joins a deployment. It ends nothing when it leaves.

    Args:
        app_name: the app.
        settings: where its actors are looked for, and how long is waited for them. What they take in, they know themselves.
        address: of the cluster; None uses the Ray that this process has initialised, else one that is found on this machine.
    """

    lasts = True

    def __init__(self, app_name: str, settings: Settings, address: str | None) -> None:
        self._app_name = app_name
        self._settings = settings
        self._connection = RayConnection(settings, address or "auto", may_start=False)
        self._deployed = RayDeployment(settings)
        self._terms: DeploymentInfo | None = None

    @property
    def artifact_store(self) -> str | ArtifactStore | None:
        """Where artifacts last, as the deployment has told; None before it was joined."""
        return self._terms.artifact_store if self._terms is not None else None

    @property
    def auto_create_session(self) -> bool:
        """What turns do that do not say it themselves, as the deployment has told."""
        return self._terms is None or self._terms.auto_create_session

    def prepare(self) -> None:
        """Connect to Ray, if need be."""
        self._connection.open()

    async def start(self) -> None:
        """Find the deployment's actors.

        Raises:
            DeploymentNotFoundError: there are none.
            ClusterError: they do not answer.
        """
        try:
            session = await asyncio.to_thread(self._find_session)
            async with asyncio.timeout(self._settings.start_timeout_s):
                self._terms = await terms_of(session)
            settings = self._terms.settings
            sessions, runners, permits = await asyncio.to_thread(self._find_all, settings)
            self._deployed.meet(sessions, runners, permits[0] if permits else None, settings)
            await self._deployed.answers()
        except BaseException as error:
            await self.leave()
            if isinstance(error, TimeoutError):
                told = f"the actors of app {self._app_name!r} did not answer within {self._settings.start_timeout_s} s"
                raise ClusterError(told) from error
            if isinstance(error, ActorLostError):
                raise self._not_found(f"It has just ended: {error}") from error
            raise

    def _find_session(self) -> Handle:
        """A Session actor: it tells how many there are."""
        for shards in (1, 2):
            with suppress(ValueError):
                return named(actor_names(self._app_name, "session", shards)[0], self._settings.namespace)
        raise self._not_found(_hint(self._app_name, self._settings.namespace))

    def _find_all(self, settings: Settings) -> list[list[Handle]]:
        """The Session actors, the Runners, and the actor that limits models, if there is one."""
        app = self._app_name
        parts = [actor_names(app, "session", settings.session_shards), actor_names(app, "runner", settings.runners)]
        parts.append([permits_name(app)] if settings.model_limits else [])
        try:
            return [[named(name, self._settings.namespace) for name in names_of_kind] for names_of_kind in parts]
        except ValueError as error:
            raise self._not_found(f"It has just ended, or is being started: {error}") from error

    def _not_found(self, hint: str) -> DeploymentNotFoundError:
        return DeploymentNotFoundError(self._app_name, self._settings.namespace, hint)

    async def leave(self) -> None:
        """Leave the deployment as it is."""
        await asyncio.to_thread(self._connection.close)

    async def stop(self) -> None:
        """Stop the deployment, whoever has started it."""
        pids = await self._deployed.halt()
        self._deployed.hosts = await asyncio.to_thread(self._all_hosts)
        await self._deployed.kill(pids)
        await self.leave()

    def _all_hosts(self) -> dict[str, Handle]:
        """What lives of the app: its actors, and those of models that have a state of their own."""
        namespace = self._settings.namespace
        found = {}
        for _, name in names(namespace):
            if name.startswith(actor_name(self._app_name, "")):
                try:
                    found[name] = named(name, namespace)
                except ValueError:
                    # It has ended meanwhile.
                    continue
        return found


def _hint(app_name: str, namespace: str) -> str:
    """Which apps there are instead."""
    apart = ((where, *name.split("/")) for where, name in names())
    deployed = [(where, app) for where, app, *part in apart if part in (["runner"], ["runner-0"])]
    elsewhere = sorted({where for where, name in deployed if name == app_name})
    if elsewhere:
        return f"It is in namespace {elsewhere[0]!r}: give settings=Settings(namespace={elsewhere[0]!r})"
    here = sorted(name for where, name in deployed if where == namespace)
    if not here:
        return "No app is. Start one with Runtime(…, detached=True)"
    return f"Apps that are: {', '.join(here)}.{did_you_mean(app_name, here)}"
