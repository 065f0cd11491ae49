"""Which raygrove the processes of a deployment would load, on each node of a Ray."""

from __future__ import annotations

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.messages.operating.upgrades import NodeRelease
from runtime.cluster.cluster_watch import cluster_nodes
from runtime.cluster.notices.release import Release, this_release
from runtime.cluster.transport.link import last_line
from runtime.cluster.transport.ray_actors import start_task

ASK_S = 60.0
"""How long the nodes may take to start a process that answers."""


def node_releases() -> list[NodeRelease]:
    """Ask a process on each node. It blocks its thread."""
    asked = {
        node.address: start_task(
            _release_there, num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)
        )
        for node in cluster_nodes()
    }
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=ASK_S)
    return [_answer(address, answer) for address, answer in sorted(asked.items())]


def _answer(address: str, answer: ray.ObjectRef[tuple[str, str, str]]) -> NodeRelease:
    try:
        found = Release(*ray.get(answer, timeout=0))
    except GetTimeoutError:
        return NodeRelease(node=address, release=f"it did not answer within {ASK_S:g} s", is_new=False)
    except RayError as error:
        # One that is older has no such function.
        return NodeRelease(node=address, release=f"an older one, or none: {last_line(error)}", is_new=False)
    return NodeRelease(node=address, release=f"{found} in {found.folder}", is_new=found.is_same(this_release()))


def _release_there() -> tuple[str, str, str]:
    release = this_release()
    return release.version, release.code, release.folder
