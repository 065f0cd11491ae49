"""Starting, finding and calling Ray actors: the only module that wraps something for Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.errors import ActorLostError, ClusterError
from runtime.cluster.transport.link import Handle, told


def myself(namespace: str) -> Handle:
    """The actor in whose process this runs. Ray tells the namespace of its driver, which may be another than its own."""
    return named(ray.get_runtime_context().get_actor_name() or "", namespace)


def named(name: str, namespace: str) -> Handle:
    """The actor of that name. Raises ValueError when there is none."""
    actor: Handle = ray.get_actor(name, namespace=namespace)
    return actor


def start(host: type[Any], name: str, namespace: str, max_concurrency: int, *args: Any, **resources: Any) -> Handle:
    """Start a Ray actor.

    Args:
        host: one of the classes above.
        name: under which `ray.get_actor` finds it, in `namespace`.
        max_concurrency: messages that it handles at the same time.
        args: for the host.
        resources: Ray's options for where it runs, and whether it is started again.

    Raises:
        ValueError: the name is taken.
    """
    options = {"num_cpus": 0, **resources}
    remote = ray.remote(host).options(
        name=name, namespace=namespace, max_concurrency=max_concurrency, enable_task_events=False, **options
    )
    handle: Handle = remote.remote(*args)
    return handle


def names(namespace: str | None = None) -> list[tuple[str, str]]:
    """Namespace and name of all actors that have one; with `namespace`, of those in it."""
    found = [(each["namespace"], each["name"]) for each in ray.util.list_named_actors(all_namespaces=True)]
    return sorted(each for each in found if namespace is None or each[0] == namespace)


async def define(runner: Handle, name: str, plan: bytes) -> None:
    """Have the host of a Runner keep a pickled definition of a flow. Raises ActorLostError."""
    try:
        await runner.define.remote(name, plan)
    except RayActorError as error:
        raise ActorLostError("the Runner", told(error)) from error


def fill(runner: Handle) -> None:
    """Have the host of a Runner begin to have processes stand ready."""
    runner.fill.remote()


async def terms_of(session: Handle) -> Any:
    """What the host of a Session actor tells drivers that join. Raises ActorLostError, ClusterError."""
    try:
        return await session.terms.remote()
    except RayActorError as error:
        raise ActorLostError("the Session actor", told(error)) from error
    except RayTaskError as error:
        raise ClusterError(f"the deployment cannot be joined: {error.cause or error}") from error


def start_task(function: Callable[..., Any], *args: Any, **resources: Any) -> ray.ObjectRef[Any]:
    """Start a Ray task; it is not run again when it fails.

    Args:
        resources: Ray's options for where it runs.
    """
    task: ray.ObjectRef[Any] = ray.remote(function).options(max_retries=0, **resources).remote(*args)
    return task


SPREAD: Mapping[str, Any] = {"scheduling_strategy": "SPREAD", "memory": 1}
"""Ray's options for actors of which there are many: each is started on another node than the one before, where it can be.

An actor that needs nothing Ray starts anywhere, whatever its strategy; one byte is something.
"""
