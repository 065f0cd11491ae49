"""Nodes of a Ray: where one runs on this machine, what is free on each, where this one has its logs and metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import ray
from ray.util import get_node_ip_address

from runtime.cluster.ray.connections import connected
from runtime.cluster.ray.names import PrivateName

METRICS_INTERVAL = "RAY_metrics_report_interval_ms"
"""Environment variable: how often Ray reads metrics, in milliseconds; Ray's own default is 10,000."""

_FIND = PrivateName(
    "ray._private.services",
    "canonicalize_bootstrap_address_or_die",
    "a connection is made to see where Ray runs on this machine, which takes a second",
)
_FREE = PrivateName(
    "ray._private.state",
    "available_resources_per_node",
    "what is free in the whole cluster stands for what is free on each node: an agent may wait for a node without being told why",
)
_NODE = PrivateName(
    "ray._private.worker",
    "_global_node",
    "there are no log files beside Ray's (RAYGROVE_LOG_DIR names another folder), and no metrics of raygrove in Ray's",
)
_INTERVAL = PrivateName(
    "ray._raylet", "Config.metrics_report_interval_ms", f"metrics are handed on as often as {METRICS_INTERVAL} says, or every 5 s"
)
_DRAINING = PrivateName(
    "ray._private.state", "state.get_draining_nodes", "nodes that are about to leave are used until they have left"
)


def running_address() -> str:
    """The address of the Ray that runs on this machine, as `host:port`.

    Raises:
        ConnectionError: there is none, or there are several.
        RuntimeError, OSError, ValueError, RayError: Ray's own.
    """
    with _FIND.or_without():
        return str(_FIND.find()("auto"))
    with connected("auto") as address:
        return address


def this_address() -> str:
    """The IP address under which this machine is a node of Ray."""
    return str(get_node_ip_address())  # type: ignore[no-untyped-call]


def free_resources(nodes: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The free resources of each node.

    Args:
        nodes: all resources of the nodes that are alive, by their ids.
    """
    with _FREE.or_without():
        free = _FREE.find()()
        return {node: dict(free.get(node, {})) for node in nodes}
    cluster: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    return {node: {name: min(number, cluster.get(name, 0.0)) for name, number in has.items()} for node, has in nodes.items()}


def logs_folder() -> str | None:
    """The folder of Ray's logs on this node; None where Ray does not say it."""
    with _NODE.or_without():
        node = _NODE.find()
        return None if node is None else os.fspath(node.get_logs_dir_path())
    return None


def collects_metrics() -> bool:
    """Whether the node of this process collects metrics. Its raylet tells each worker where; -1 without `ray[default]`."""
    with _NODE.or_without():
        return (getattr(_NODE.find(), "metrics_agent_port", None) or -1) > 0
    return False


def metrics_interval_s() -> float:
    """The seconds between two readings of a process' metrics by Ray."""
    with _INTERVAL.or_without():
        return float(_INTERVAL.find()()) / 1_000
    given = os.environ.get(METRICS_INTERVAL, "")
    return int(given) / 1_000 if given.isdecimal() else 10.0


def living_nodes() -> list[dict[str, Any]]:
    """Ray's records of the nodes that are alive.

    Raises:
        ConnectionError: this process is not connected with a Ray, or is no more. Ray itself would start one.
    """
    if not ray.is_initialized():
        raise ConnectionError("this process is connected with no Ray, which could tell of nodes")
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def draining_nodes() -> Mapping[str, int]:
    """When the nodes leave that have to, by their ids: in milliseconds since the epoch, 0 for one without a deadline."""
    with _DRAINING.or_without():
        deadlines: dict[str, int] = _DRAINING.find()()
        return deadlines
    return {}
