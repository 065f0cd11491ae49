"""The handle that a process has of an actor of Ray's."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

if TYPE_CHECKING:
    # Ray's own type says that no call of a method ever returns, so code behind one would not be checked.
    Handle = Any
else:
    Handle = ActorHandle[Any]
    """Ray's handle of an actor; it can be sent to other processes."""


T = TypeVar("T")

RayOptions = dict[str, Any]
"""Ray's options of an actor or a task, such as `num_cpus`."""

SPREAD: Mapping[str, Any] = {"scheduling_strategy": "SPREAD", "memory": 1}
"""Options that start actors of one kind on different nodes, as far as possible.

Ray ignores the strategy of an actor that needs no resources, hence one byte of memory.
"""


def on_node(node: str) -> RayOptions:
    """Options that start an actor on a node, or on another if that one is gone or full."""
    return {**SPREAD, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}


def this_node() -> str:
    """The id of the node of this process."""
    return str(ray.get_runtime_context().get_node_id())


def only_on(node: str) -> RayOptions:
    """Options that start an actor on a node and on no other."""
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def start_actor(host: type[Any], name: str, namespace: str, max_concurrency: int, *args: Any, **resources: Any) -> Handle:
    """Start a Ray actor.

    Args:
        name: `get_actor` finds it by this name, in `namespace`.
        max_concurrency: messages that it handles at the same time.
        args: for the host.
        resources: Ray's options for where it runs, and whether it is restarted.

    Raises:
        ValueError: the name is taken.
    """
    options = {"num_cpus": 0, **resources}
    remote = _for_ray(cast(Hashable, host)).options(
        name=name, namespace=namespace, max_concurrency=max_concurrency, enable_task_events=False, **options
    )
    handle: Handle = remote.remote(*args)
    return handle


@cache
def _for_ray(code: Any) -> Any:
    """A class or function as Ray starts it. Ray sends each to its control service when it is used first, which keeps it."""
    return ray.remote(code)


def start_task(function: Callable[..., Any], *args: Any, **resources: Any) -> ray.ObjectRef[Any]:
    """Start a Ray task; it is not run again when it fails.

    Args:
        resources: Ray's options for where it runs.
    """
    task: ray.ObjectRef[Any] = _for_ray(function).options(max_retries=0, **resources).remote(*args)
    return task


def get_actor(name: str, namespace: str) -> Handle:
    """The actor with that name. Raises ValueError when there is none."""
    actor: Handle = ray.get_actor(name, namespace=namespace)
    return actor


def current_actor(namespace: str) -> Handle:
    """The actor in whose process this runs.

    Args:
        namespace: the actor's. Ray's own context gives that of the driver, which may be another.
    """
    return get_actor(ray.get_runtime_context().get_actor_name() or "", namespace)


def is_restarted() -> bool:
    """True in an actor that Ray has started again after its process was lost."""
    with warnings.catch_warnings():
        # Ray itself calls a method here that it has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def list_named_actors(namespace: str | None = None) -> list[tuple[str, str]]:
    """Namespace and name of all actors that have a name; with `namespace`, of those in it."""
    found = [(each["namespace"], each["name"]) for each in ray.util.list_named_actors(all_namespaces=True)]
    return sorted(each for each in found if namespace is None or each[0] == namespace)


async def listed(ask: Callable[[], Awaitable[Sequence[T]]], timeout_s: float) -> Sequence[T]:
    """Ask a process for a list; the list is empty for one that is lost, or does not answer in this time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await ask()
    except (RayError, TimeoutError):
        return ()
