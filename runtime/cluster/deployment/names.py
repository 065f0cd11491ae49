"""The names under which `ray.get_actor` finds the actors of an app."""

from __future__ import annotations

from actors.rules.capacity.sharding import all_shards, shard_name
from runtime.cluster.rules.leaving import CoreProcess
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
