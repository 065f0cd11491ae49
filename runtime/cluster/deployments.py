"""Which apps run on a Ray, and where their actors are, as Ray itself knows it: no actor is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ray.exceptions import RayError

from actors.errors import ClusterError
from runtime.cluster.cluster_watch import cluster_nodes
from runtime.cluster.deployment.connection import check_address, find_ray, prepare_joining
from runtime.cluster.ray.connections import connected
from runtime.cluster.ray.control_service import ActorRecord, present_actors
from runtime.cluster.ray.tokens import MODE, use_mode
from runtime.cluster.transport.ray_actors import list_named_actors

_FIRST_SESSIONS = ("session", "session-0")


class NamedActor(ActorRecord):
    """An actor of an app, named `<app>/<part>`. In the one that `apps_of` gives, `is_restarting` is of any actor of its app."""

    __slots__ = ()

    @property
    def app(self) -> str:
        """The app's name."""
        return self.name.partition("/")[0]

    @property
    def part(self) -> str:
        """Its part in the app: `session`, `runner-0`, `host/3` …"""
        return self.name.partition("/")[2]


def ray_address(address: str | None) -> str:
    """Where the Ray is that is meant.

    Args:
        address: `host:port`; None or "auto": of the one that runs on this machine.

    Raises:
        ClusterError: none is found.
    """
    return find_ray() if address in (None, "auto") else address or ""


def named_actors(address: str) -> list[NamedActor]:
    """The actors of all apps on the Ray at `host:port`, in all namespaces. This process need not be connected.

    A version of Ray that tells these only to programs that are connected with it says no more than their names.

    Raises:
        ClusterError: the Ray cannot be reached, or refuses this program.
    """
    check_address(address)
    mode = os.environ.get(MODE)
    try:
        prepare_joining(address)
        return _present_actors(address)
    finally:
        use_mode(mode)


def on_draining_nodes(address: str) -> Mapping[str, Sequence[str]]:
    """The actors on nodes that drain, such as `session` and `host/3`, by app. IP addresses tell nodes apart.

    Args:
        address: of the Ray that this process is connected with.

    Raises:
        ClusterError: it does not answer.
    """
    found: dict[str, list[str]] = {}
    draining = {node.address for node in cluster_nodes() if node.drain is not None}
    for actor in _present_actors(address) if draining else ():
        if actor.node in draining:
            found.setdefault(actor.app, []).append(actor.part)
    return found


def _present_actors(address: str) -> list[NamedActor]:
    try:
        actors = present_actors(address)
        if actors is None:
            with connected(address):
                actors = [ActorRecord(*each) for each in list_named_actors()]
    except (RuntimeError, OSError, ValueError, RayError) as error:
        raise ClusterError(f"the Ray at {address!r} does not tell its actors: {error}") from error
    return sorted(
        (NamedActor(*each) for each in actors if "/" in each.name), key=lambda each: (each.namespace, each.app, each.part)
    )


def apps_of(actors: Sequence[NamedActor]) -> list[NamedActor]:
    """One actor of each app: its first Session actor."""
    restarting = {(each.namespace, each.app) for each in actors if each.is_restarting}
    sessions = (each for each in actors if each.part in _FIRST_SESSIONS)
    return [each._replace(is_restarting=(each.namespace, each.app) in restarting) for each in sessions]
