"""Starts the actors of a deployment on Ray."""

from __future__ import annotations

from actors.errors import DeploymentExistsError
from actors.messages.session import ONLY_SHARD, Shard
from runtime.cluster.handle import Handle
from runtime.cluster.packing.chunks import to_chunks
from runtime.cluster.processes.placing import core_options
from runtime.cluster.transport.ray_actors import SPREAD, RayOptions, start_actor
from runtime.engine.deployment import Deployment

FOREVER = -1
"""Ray restarts an actor as often as its process is lost."""


class ActorStarter:
    """Starts actors with the options that a deployment's settings ask for, and keeps their handles."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.handles: dict[str, Handle] = {}

    def start(
        self,
        host: type[object],
        name: str,
        *args: str,
        refusal: str,
        content: object,
        restarts: int = FOREVER,
        shard: Shard = ONLY_SHARD,
        placed: RayOptions | None = None,
        max_concurrency: int | None = None,
    ) -> Handle:
        """Start an actor.

        Args:
            args: its first arguments; the chunks of `content` follow.
            refusal: begins the error when `content` cannot travel.
            restarts: how often Ray restarts it when its process is lost.
            shard: one of several is started on another node than the others, as far as possible.
            placed: where it runs; None: as the shard says.
            max_concurrency: messages that it handles at the same time; None: as the settings say.

        Raises:
            DefinitionError: `content` cannot be pickled, or is too large for a detached deployment.
            DeploymentExistsError: the name is taken.
        """
        deployment, settings = self._deployment, self._deployment.settings
        chunks = to_chunks(refusal, content, must_last=deployment.detached, variables=settings.variables)
        options: RayOptions = {"max_restarts": restarts, **core_options(settings)}
        if placed is not None or shard.of > 1:
            options |= placed or SPREAD
        if deployment.detached:
            options["lifetime"] = "detached"
        concurrency = max_concurrency or settings.max_concurrency
        try:
            handle = start_actor(host, name, settings.namespace, concurrency, *args, *chunks, **options)
        except ValueError as error:
            raise DeploymentExistsError(deployment.app_name) from error
        self.handles[name] = handle
        return handle
