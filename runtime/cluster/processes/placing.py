"""Processes for agents that ask for resources: on a node that has them, or an error that says why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ray
from ray._private.state import available_resources_per_node
from ray.exceptions import RayActorError

from actors.definitions.agents import Placement
from actors.definitions.tree.process_groups import ProcessGroup
from actors.errors import ActorLostError, PlacementError
from actors.rules.capacity.placement import Needs, Node, refusal
from runtime.cluster.transport.link import Handle, told
from runtime.cluster.transport.ray_actors import SPREAD
from runtime.settings import Settings


def ray_options(placement: Placement) -> dict[str, Any]:
    """A placement in Ray's terms."""
    options: dict[str, Any] = {**SPREAD, "num_cpus": placement.num_cpus}
    if placement.num_gpus:
        options["num_gpus"] = placement.num_gpus
    if placement.memory is not None:
        options["memory"] = placement.memory
    if placement.resources:
        options["resources"] = placement.resources
    if placement.label_selector:
        options["label_selector"] = placement.label_selector
    return options


def needs(placement: Placement) -> Needs:
    """What a placement asks for."""
    asked = {"CPU": placement.num_cpus, "GPU": placement.num_gpus, "memory": placement.memory or 0, **placement.resources}
    return Needs({name: number for name, number in asked.items() if number}, placement.label_selector)


def nodes() -> list[Node]:
    """The nodes that are alive."""
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [Node(each["NodeName"], each["Resources"], each["Labels"]) for each in found if each["Alive"]]


async def is_free(home: ProcessGroup) -> bool:
    """Whether a node has now, besides what others on it use, what a process asks for. What is told may be a moment old."""
    return refusal(needs(home.placement), await asyncio.to_thread(_rests)) is None


def _rests() -> list[Node]:
    """The nodes that are alive, with what of them is free."""
    free: dict[str, dict[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [Node(each["NodeName"], free.get(each["NodeID"], {}), each["Labels"]) for each in found if each["Alive"]]


def memory_bytes() -> float:
    """How much memory Ray has for processes, on all nodes: what their containers allow, less its object stores."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("memory", 0.0)


async def placed(start: Callable[[], Handle], home: ProcessGroup, settings: Settings) -> Handle:
    """Start a process on a node that has what it asks for, and return it when it lives.

    Args:
        start: asks Ray for it.

    Raises:
        PlacementError: no node can ever have it; or others have had what it needs for too long.
        ActorLostError: it was lost as soon as it lived.
    """
    asked = needs(home.placement)
    if not settings.autoscaling and (reason := refusal(asked, await asyncio.to_thread(nodes))) is not None:
        raise PlacementError(home.leader, str(asked), reason)
    # Where nodes are added as they are needed, it is by processes that wait that somebody sees what is needed.
    handle = await asyncio.to_thread(start)
    lives = False
    try:
        async with asyncio.timeout(settings.placement_timeout_s):
            await handle.__ray_ready__.remote()
        lives = True
    except TimeoutError:
        waited = f"within {settings.placement_timeout_s:g} s (RAYGROVE_PLACEMENT_TIMEOUT_S)"
        reason = refusal(asked, await asyncio.to_thread(nodes))
        sentence = f"{reason}; no other came {waited}" if reason is not None else f"and others did not leave it {waited}"
        raise PlacementError(home.leader, str(asked), sentence) from None
    except RayActorError as error:
        raise ActorLostError(f"agent {home.leader!r}", told(error)) from error
    finally:
        if not lives:
            ray.kill(handle)
    return handle
