"""Which apps run on a Ray, and where their actors are, as Ray itself knows it: no actor is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ray.exceptions import RayError

from actors.errors import ClusterError
from runtime.cluster.cluster_watch import cluster_nodes
from runtime.cluster.deployment.connection import check_address, find_ray, prepare_joining
from runtime.cluster.ray.connections import connected
from runtime.cluster.ray.control_service import ActorRecord, present_actors
from runtime.cluster.ray.tokens import MODE, use_mode
from runtime.cluster.transport.ray_actors import list_named_actors

_FIRST_SESSIONS = ("session", "session-0")


class NamedActor(NamedTuple):
    """An actor of an app, which lives or is being started again.

    Attributes:
        namespace: Ray's.
        part: what it is there: `session`, `runner-0`, `host/3` …
        pid: its process; 0: unknown.
        node: the IP address of its node; "": unknown.
        started_s: when Ray has started it, in seconds since the epoch; None: unknown.
        restarts: how often Ray has started it again.
        is_restarting: its process was lost, and Ray is about to start it again. Of the actor that stands for an app: one of its
            actors is.
    """

    namespace: str
    app: str
    part: str
    pid: int
    node: str
    started_s: float | None
    restarts: int
    is_restarting: bool = False

    @property
    def name(self) -> str:
        """The name for `ray.get_actor`."""
        return f"{self.app}/{self.part}"


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
        actors = _present_actors(address)
    finally:
        use_mode(mode)
    found = []
    for actor in actors:
        app, slash, part = actor.name.partition("/")
        if slash:
            found.append(NamedActor(actor.namespace, app, part, *actor[2:]))
    return sorted(found, key=lambda each: each[:3])


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
        app, slash, part = actor.name.partition("/")
        if slash and actor.node in draining:
            found.setdefault(app, []).append(part)
    return found


def _present_actors(address: str) -> list[ActorRecord]:
    try:
        actors = present_actors(address)
        if actors is None:
            with connected(address):
                actors = [ActorRecord(*each) for each in list_named_actors()]
    except (RuntimeError, OSError, ValueError, RayError) as error:
        raise ClusterError(f"the Ray at {address!r} does not tell its actors: {error}") from error
    return actors


def apps_of(actors: Sequence[NamedActor]) -> list[NamedActor]:
    """One actor of each app: its first Session actor."""
    restarting = {each[:2] for each in actors if each.is_restarting}
    return [each._replace(is_restarting=each[:2] in restarting) for each in actors if each.part in _FIRST_SESSIONS]
