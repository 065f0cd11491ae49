"""The actors of a deployment on Ray: their names for `ray.get_actor`, and how they are started."""

from __future__ import annotations

from actors.errors import DeploymentExistsError
from actors.messages.session import ONLY_SHARD, Shard
from actors.rules.sharding import all_shards, shard_name
from runtime.cluster.packing.pickling import to_chunks
from runtime.cluster.processes.placing import core_options
from runtime.cluster.rules.leaving import CoreProcess
from runtime.cluster.transport.ray_actors import SPREAD, Handle, RayOptions, start_actor
from runtime.engine.deployment import Deployment
from runtime.settings import Settings


def actor_name(app_name: str, part: str) -> str:
    """`<app>/<part>`, such as `support/session`."""
    return f"{app_name}/{part}"


def actor_names(app_name: str, part: str, number: int) -> list[str]:
    """The names of all actors of a kind: `<app>/session` for a single one, else `<app>/session-0` and so on."""
    return [actor_name(app_name, shard_name(part, shard)) for shard in all_shards(number)]


def session_standbys(app_name: str, settings: Settings, stores: int) -> list[str]:
    """`<app>/session-standby`, or `<app>/session-standby-0` and so on: of all Session actors of so many stores; none without."""
    return actor_names(app_name, "session-standby", stores * settings.session_shards) if settings.standby_sessions else []


def runner_standbys(app_name: str, settings: Settings) -> list[str]:
    """`<app>/standby`, or `<app>/standby-0` and so on: of all Runners; none where they have none."""
    return actor_names(app_name, "standby", settings.runners) if settings.standby_runners else []


def limiter_name(app_name: str) -> str:
    """`<app>/limits`, the actor that limits models."""
    return actor_name(app_name, "limits")


def host_name(app_name: str, number: str) -> str:
    """`<app>/host/<number>`, a process in which agents live."""
    return f"{app_name}/host/{number}"


def core_processes(app_name: str, settings: Settings, stores: int) -> list[CoreProcess]:
    """The processes of a deployment with so many stores that it cannot be without, by their names."""
    sessions = actor_names(app_name, "session", stores * settings.session_shards)
    runners = actor_names(app_name, "runner", settings.runners)
    limiters = [limiter_name(app_name)] if settings.model_limits else []
    kinds = [(sessions, sessions), (session_standbys(app_name, settings, stores), sessions)]
    kinds += [(runners, runners), (runner_standbys(app_name, settings), runners), (limiters, limiters)]
    return [
        CoreProcess(name, actor, is_session=actors is sessions)
        for names, actors in kinds
        for name, actor in zip(names, actors, strict=False)
    ]


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
