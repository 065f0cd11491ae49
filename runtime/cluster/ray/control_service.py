"""Questions to the control service of a Ray (GCS) that this process need not be connected with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ray.exceptions import AuthenticationError

from runtime.cluster.ray.names import PrivateName

_CLIENT = PrivateName(
    "ray._raylet", "GcsClient", "the version and the token of a Ray are not checked before it is joined; Ray itself checks them"
)
_TABLE = PrivateName(
    "ray._private.state",
    "GlobalState",
    "commands connect with a Ray to list its deployments, and show no process, node, age or restarts of an actor",
)

_MADE_UP_CLUSTER = "00" * 27 + "01"
"""No cluster has this id."""

_NO_TOKEN = "InvalidAuthToken"
"""In what Ray's server says to a client without its token. What it says to a client of another cluster has the same class."""

_RESTARTING = "RESTARTING"

_STATES = ("ALIVE", _RESTARTING)
"""The states of actors that are there. Ray starts an actor whose process was lost again, which takes seconds."""


class Versions(NamedTuple):
    """The versions of a cluster's Ray and Python; "" where it does not say them."""

    ray: str
    python: str


def ask_versions(address: str, timeout_s: float) -> Versions | None:
    """Ask the Ray at `host:port` for its versions. None where this version of Ray has no way to ask before it connects.

    Raises:
        AuthenticationError: it does not take the token that this process sends, or its lack.
        RpcError: it does not answer.
    """
    with _CLIENT.or_without():
        _check_token(address, timeout_s)
        raw = _CLIENT.find()(address).internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster", timeout=timeout_s)
        told = json.loads(raw) if raw else {}
        return Versions(told.get("ray_version", ""), told.get("python_version", ""))
    return None


def _check_token(address: str, timeout_s: float) -> None:
    """Check that a Ray takes the token that this process sends, or its lack. Raises AuthenticationError, RpcError.

    A client without a cluster's id asks for it first, and Ray's C++ writes to the standard error when that is refused: it looks
    as if the program had failed. One that has an id is refused in silence, for the token, which comes first, or for the id.
    """
    try:
        _CLIENT.find()(address, cluster_id=_MADE_UP_CLUSTER).internal_kv_get(b"", namespace=b"cluster", timeout=timeout_s)
    except AuthenticationError as error:
        if _NO_TOKEN in str(error):
            raise


class ActorRecord(NamedTuple):
    """An actor as Ray knows it, which lives or is being started again.

    Attributes:
        namespace, name: Ray's; the name is "" for most actors.
        pid: its process; 0 where Ray does not say.
        node: the IP address of its node; "" where Ray does not say.
        started_s: when Ray has started it, in seconds since the epoch; None where Ray does not say.
        restarts: how often Ray has started it again.
        is_restarting: its process was lost, and Ray is about to start it again.
    """

    namespace: str
    name: str
    pid: int = 0
    node: str = ""
    started_s: float | None = None
    restarts: int = 0
    is_restarting: bool = False


def present_actors(address: str) -> list[ActorRecord] | None:
    """The actors on the Ray at `host:port`, also those that are being started again.

    None where this version of Ray has no way to ask without a connection.

    Raises:
        RuntimeError, OSError, ValueError, RayError: it does not answer.
    """
    with _TABLE.or_without():
        from ray._raylet import GcsClientOptions  # type: ignore[attr-defined]
        from ray.core.generated.gcs_pb2 import ActorTableData  # type: ignore[attr-defined]

        state = _TABLE.find()()
        state._initialize_global_state(
            GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
        )
        try:
            accessor = state._connect_and_get_accessor()
            rows: dict[str, list[bytes]] = {each: accessor.get_actor_table(None, each) for each in _STATES}
        finally:
            state.disconnect()
        return [_record(ActorTableData.FromString(row), each == _RESTARTING) for each in _STATES for row in rows[each]]
    return None


def _record(row: Any, is_restarting: bool) -> ActorRecord:
    started_s = row.start_time / 1_000
    return ActorRecord(row.ray_namespace, row.name, row.pid, row.address.ip_address, started_s, row.num_restarts, is_restarting)
