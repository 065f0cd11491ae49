"""Which apps run on a Ray, and where their actors are, as Ray itself knows it: no actor is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ray._private.services import get_node_ip_address
from ray._private.state import GlobalState
from ray._raylet import GcsClientOptions  # type: ignore[attr-defined]
from ray.core.generated.gcs_pb2 import ActorTableData  # type: ignore[attr-defined]
from ray.exceptions import RayError

from actors.errors import ClusterError
from runtime.cluster.deployment.connection import find_ray
from runtime.cluster.deployment.joining import MODE, prepare_joining, use_mode

_ALIVE = "ALIVE"
_FIRST_SESSIONS = ("session", "session-0")


class NamedActor(NamedTuple):
    """A living actor of an app.

    Attributes:
        namespace: Ray's.
        app: the app.
        part: what it is there: `session`, `runner-0`, `host/3` …
        pid: its process.
        node: the IP address of its node.
        started_s: when Ray has started it, in seconds since the epoch.
        restarts: how often Ray has started it again.
    """

    namespace: str
    app: str
    part: str
    pid: int
    node: str
    started_s: float
    restarts: int

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
    """The living actors of all apps on the Ray at `host:port`, in all namespaces. This process need not be connected.

    Raises:
        ClusterError: the Ray cannot be reached, or refuses this program.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ClusterError(f"{address!r} is no address of a Ray: give host:port, such as 127.0.0.1:6379")
    mode = os.environ.get(MODE)
    try:
        prepare_joining(address)
        rows = _actor_table(address)
    finally:
        use_mode(mode)
    found = []
    for row in rows:
        actor = ActorTableData.FromString(row)
        app, slash, part = actor.name.partition("/")
        if slash:
            started_s, node = actor.start_time / 1_000, actor.address.ip_address
            found.append(NamedActor(actor.ray_namespace, app, part, actor.pid, node, started_s, actor.num_restarts))
    return sorted(found)


def _actor_table(address: str) -> list[bytes]:
    state = GlobalState()  # type: ignore[no-untyped-call]
    options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    state._initialize_global_state(options)
    try:
        table: list[bytes] = state._connect_and_get_accessor().get_actor_table(None, _ALIVE)
    except (RuntimeError, OSError, ValueError, RayError) as error:
        raise ClusterError(f"the Ray at {address!r} does not tell its actors: {error}") from error
    finally:
        state.disconnect()  # type: ignore[no-untyped-call]
    return table


def apps_of(actors: Sequence[NamedActor]) -> list[NamedActor]:
    """One actor of each app: its first Session actor."""
    return [each for each in actors if each.part in _FIRST_SESSIONS]


def this_node() -> str:
    """The IP address under which this machine is a node of Ray."""
    return str(get_node_ip_address())  # type: ignore[no-untyped-call]
