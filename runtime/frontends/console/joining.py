"""How commands find a deployment that runs, join it, and find a session in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging import LogRecord
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import ClusterError, DeploymentNotFoundError, RequestError
from actors.errors.hints import did_you_mean
from runtime.driver.runtime import Runtime
from runtime.settings import Settings

if TYPE_CHECKING:
    from runtime.cluster.deployments import NamedActor

_PROC = Path("/proc")
_GCS = "gcs_server"
"""The process that every Ray has."""

MANY = 1_000
"""How many open turns are looked at."""


@contextmanager
def joined(name: str, address: str | None, logs: Callable[[LogRecord], object] | None = None) -> Iterator[Runtime]:
    """Join a deployment. Leaving it stops nothing.

    Args:
        logs: gets what agents log and print.

    Raises:
        DeploymentNotFoundError: it does not run; the error names those that do.
        ClusterError: there is no Ray, or the deployment does not answer.
    """
    with started(find_deployment(name, address, logs)) as rt:
        yield rt


def find_deployment(name: str, address: str | None, logs: Callable[[LogRecord], object] | None = None) -> Runtime:
    """A deployment that runs, not joined yet. Raises DeploymentNotFoundError, ClusterError: see `joined`."""
    settings = Settings()
    where, actors = _ask_ray(address)
    running = _apps(actors)
    here = sorted(each.app for each in running if each.namespace == settings.namespace)
    if name not in here:
        elsewhere = sorted({each.namespace for each in running if each.app == name})
        raise DeploymentNotFoundError(name, settings.namespace, f"The Ray is the one at {where}. {_hint(name, here, elsewhere)}")
    return Runtime.connect(name, address=where, settings=settings, logs=logs or False)


def living_deployment(name: str, address: str | None) -> Runtime | None:
    """A deployment of a folder's name, not joined yet; None when none lives on the Ray that is meant, as far as that tells.

    Where no Ray runs, it is not imported to learn that.
    """
    if address is None and not _any_ray_runs():
        return None
    try:
        return find_deployment(name, address)
    except ClusterError:
        return None


@contextmanager
def started(rt: Runtime) -> Iterator[Runtime]:
    """Start a Runtime that joins or starts a deployment on a cluster, and leave it in the end."""
    with rt:
        yield rt


def running_apps(address: str | None) -> list[NamedActor]:
    """The first actor of each deployment in this namespace. Raises ClusterError."""
    namespace = Settings().namespace
    return [each for each in _apps(_ask_ray(address)[1]) if each.namespace == namespace]


def user_of(rt: Runtime, session: str, user: str | None) -> str:
    """Whose session it is.

    Args:
        user: as the command line names it.

    Raises:
        RequestError: there is no such session, or several users have one.
    """
    if user is not None:
        if rt.sessions.get(user, session, num_recent_events=0) is None:
            raise RequestError(f"user {user!r} has no session {session!r} in {rt.app_name!r}")
        return user
    sessions = rt.sessions.list()
    users = [each.user_id for each in sessions if each.id == session]
    if len(users) > 1:
        raise RequestError(f"session {session!r} is there of several users: choose with --user {' or '.join(users)}")
    if not users:
        known = list(dict.fromkeys(each.id for each in sessions))
        hint = did_you_mean(session, known) or f" The newest ones: {', '.join(known[:5]) or 'none'}."
        raise RequestError(f"there is no session {session!r} in {rt.app_name!r}.{hint}")
    return users[0]


def find_ray(address: str | None) -> str:
    """Where the Ray is that is meant, as `host:port`. Raises ClusterError when none is named, and none runs here."""
    from runtime.cluster.deployments import ray_address

    return ray_address(address)


def _any_ray_runs() -> bool:
    """False when there is certainly no Ray here, and none is named."""
    if os.environ.get("RAY_ADDRESS") or not _PROC.is_dir():
        return True
    for comm in _PROC.glob("[0-9]*/comm"):
        # It may end meanwhile.
        with suppress(OSError):
            if comm.read_text().strip() == _GCS:
                return True
    return False


def _ask_ray(address: str | None) -> tuple[str, list[NamedActor]]:
    from runtime.cluster.deployments import named_actors

    where = find_ray(address)
    return where, named_actors(where)


def _apps(actors: list[NamedActor]) -> list[NamedActor]:
    from runtime.cluster.deployments import apps_of

    return apps_of(actors)


def _hint(name: str, here: list[str], elsewhere: list[str]) -> str:
    match elsewhere:
        case [namespace]:
            return f"It runs in namespace {namespace!r}: set RAYGROVE_NAMESPACE={namespace!r}"
        case [_, *_]:
            return f"It runs in the namespaces {', '.join(map(repr, elsewhere))}: set RAYGROVE_NAMESPACE to one of them"
    if not here:
        return "No app is: `raygrove start PATH` starts one from its code"
    return f"Apps that are: {', '.join(here)}.{did_you_mean(name, here)}"
