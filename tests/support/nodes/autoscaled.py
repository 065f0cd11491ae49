"""A Ray on this machine whose nodes Ray's own autoscaler adds and takes away: each is a raylet, as in Ray's own tests.

Ray's `AutoscalingCluster` needs a file that its wheels do not have, and ends every Ray of the machine.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.agents.mcp_tools import free_port

HEAD = f"{0:05}".rjust(56, "f")
"""The id that the provider of nodes gives the head."""

UNUSED = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "cluster_synced_files",
    "rsync_exclude",
    "rsync_filter",
)
"""What the autoscaler's file has to name although nothing is installed on these nodes."""

UPDATE_S = 1
"""How often the autoscaler looks."""


@contextmanager
def autoscaled_ray(folder: Path, *, cpus: int, least: int, most: int, idle_s: float) -> Iterator[str]:
    """The address of a Ray whose head has no CPU. Use it in a process of its own, before it imports Ray.

    Args:
        folder: for files.
        cpus: of each node but the head.
        least, most: how many nodes there are besides the head.
        idle_s: a node that was idle for so long is given back.
    """
    variables = {"RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD, "RAY_FAKE_CLUSTER": "1"}
    os.environ |= {**variables, "RAY_enable_autoscaler_v2": "1", "AUTOSCALER_UPDATE_INTERVAL_S": str(UPDATE_S)}
    import ray
    from ray.cluster_utils import Cluster
    from ray.util import get_node_ip_address

    port = free_port()
    address = f"{get_node_ip_address()}:{port}"  # type: ignore[no-untyped-call]
    config = folder / "autoscaler.json"
    config.write_text(json.dumps(_config(address, cpus, least, most, idle_s)))
    head: dict[str, Any] = {
        "num_cpus": 0,
        "gcs_server_port": port,
        "autoscaling_config": str(config),
        "temp_dir": str(folder / "ray"),
    }
    cluster = Cluster(
        initialize_head=True, head_node_args={**head, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    )
    for name in variables:
        # Workers would take them over.
        os.environ.pop(name)
    try:
        yield address
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
        end_processes_of(folder)


def _config(address: str, cpus: int, least: int, most: int, idle_s: float) -> dict[str, object]:
    module = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
    provider = {"type": "external", "module": module, "gcs_address": address, "head_node_id": HEAD}
    worker = {"resources": {"CPU": cpus, "object_store_memory": 100 * 2**20}, "node_config": {}}
    return {
        "cluster_name": "autoscaled",
        "provider": {**provider, "launch_multiple": True, "disable_node_updaters": True},
        "max_workers": most,
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {**worker, "min_workers": least, "max_workers": most},
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 100,
        "idle_timeout_minutes": idle_s / 60,
        **{name: {} for name in ("auth", "docker", "file_mounts")},
        **{name: [] for name in UNUSED},
    }


def end_processes_of(folder: Path) -> None:
    """End the raylets and what belongs to them: the autoscaler has started them, and they outlive it."""
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(process.name)
            if pid not in (os.getpid(), os.getppid()) and f"{folder}/ray" in (process / "cmdline").read_text(errors="replace"):
                os.kill(pid, signal.SIGKILL)
