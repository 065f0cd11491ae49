"""Starts processes of agents that ask for resources: on a node that has them, or with an error that says why not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import ray

from actors.definitions.agents import Placement
from actors.errors import ClusterError, PlacementError
from actors.layers.trees.process_groups import ProcessGroup
from runtime.cluster.cluster_watch import cluster_nodes
from runtime.cluster.ray.nodes import free_resources
from runtime.cluster.rules.nodes import Needs, Node, fits, refusal
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.ray_actors import SPREAD, Handle, RayOptions, on_node
from runtime.settings import Settings


def needs(placement: Placement, host_cpus: float = 0) -> Needs:
    """The resources and labels that a process for a placement asks for."""
    cpus = max(placement.num_cpus, host_cpus)
    asked = {"CPU": cpus, "GPU": placement.num_gpus, "memory": placement.memory or 0, **placement.resources}
    return Needs({name: number for name, number in asked.items() if number}, placement.label_selector)


def shared_needs(settings: Settings) -> Needs:
    """The resources and labels that the settings ask for, for each process in which any agent can live."""
    asked = {"CPU": settings.claimed_cpus, **settings.agent_resources}
    return Needs({name: number for name, number in asked.items() if number}, settings.agent_label_selector)


def ray_options(asked: Needs) -> RayOptions:
    """Options of the Ray actor of a process of agents that asks for this, on different nodes as far as possible."""
    others = dict(asked.resources)
    cpus, gpus, memory = (others.pop(name, 0) for name in ("CPU", "GPU", "memory"))
    # An autoscaler that knows no memory of its nodes adds none for a byte of it.
    options: RayOptions = {"scheduling_strategy": "SPREAD", "num_cpus": cpus} if cpus else {**SPREAD, "num_cpus": 0}
    if gpus:
        options["num_gpus"] = gpus
    if memory:
        options["memory"] = memory
    if others:
        options["resources"] = others
    if asked.labels:
        options["label_selector"] = asked.labels
    return options


def check_shared(settings: Settings) -> None:
    """Check that some node can have the processes in which any agent can live. Raises ClusterError. It blocks its thread."""
    asked = shared_needs(settings)
    if not settings.autoscaling and (reason := refusal(asked, cluster_nodes())) is not None:
        raise ClusterError(f"no process for agents can start: by the settings each asks for {asked}, {reason}")


def free_nodes(only: str | None = None) -> list[Node]:
    """The nodes that are alive and stay, or the one with that id, with the resources of each that are free."""
    living = [node for node in cluster_nodes() if only in (None, node.id) and node.drain is None]
    free = free_resources({node.id: node.resources for node in living})
    return [node._replace(resources=free[node.id]) for node in living]


def core_needs(settings: Settings) -> Needs:
    """The resources and labels that the settings ask for, for the process of each Session actor and Runner."""
    return Needs(settings.core_claims, settings.core_label_selector)


def core_options(settings: Settings) -> RayOptions:
    """Options of these processes."""
    given = {"resources": settings.core_claims, "label_selector": settings.core_label_selector}
    return {name: value for name, value in given.items() if value}


def away_from(node: str, asked: Needs) -> RayOptions:
    """Options that start an actor on another node, where there is one.

    Args:
        asked: by the actor.
    """
    others = [each for each in cluster_nodes() if each.id != node and each.drain is None]
    fit = [each for each in others if fits(asked, each)]
    if not fit:
        return {}
    return on_node(random.choice(fit).id)


async def is_free(asked: Needs, node: str | None = None) -> bool:
    """Whether a node has free now what a process asks for. Ray's figures may be a moment old.

    Args:
        node: the id of the only one that counts; None: any.
    """
    return refusal(asked, await asyncio.to_thread(free_nodes, node)) is None


async def start_placed(start: Callable[[], Handle], group: ProcessGroup, settings: Settings) -> Handle:
    """Start a process on a node that has what its group asks for, and return it when it runs.

    Args:
        start: asks Ray for the process.

    Raises:
        PlacementError: no node can ever have the resources; or other processes have held them for too long.
        ActorLostError: the process was lost as soon as it ran.
    """
    asked = needs(group.placement, settings.claimed_cpus)
    if not settings.autoscaling and (reason := refusal(asked, await asyncio.to_thread(cluster_nodes))) is not None:
        raise PlacementError(group.leader, str(asked), reason)
    # With autoscaling nothing is refused: a waiting process is what makes the autoscaler add a node.
    handle = await asyncio.to_thread(start)
    is_running = False
    try:
        async with asyncio.timeout(settings.placement_timeout_s):
            await answered(handle.__ray_ready__.remote, f"agent {group.leader!r}", 0)
        is_running = True
    except TimeoutError:
        waited = f"within {settings.placement_timeout_s:g} s (RAYGROVE_PLACEMENT_TIMEOUT_S)"
        reason = refusal(asked, await asyncio.to_thread(cluster_nodes))
        sentence = f"{reason}; no other came {waited}" if reason is not None else f"and others did not leave it {waited}"
        raise PlacementError(group.leader, str(asked), sentence) from None
    finally:
        if not is_running:
            ray.kill(handle)
    return handle
