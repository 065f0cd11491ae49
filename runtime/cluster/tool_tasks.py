"""Tools that run as Ray tasks, where the cluster has the resources that they need."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayTaskError

from actors.errors.user_code import code_of, error_text
from runtime.cluster.transport.ray_actors import start_task


async def as_task(function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
    """Implements `actors.interfaces.context.Offload`. A task whose turn is cancelled is killed; none is run twice."""
    pickled: bytes = cloudpickle.dumps((function, dict(arguments)))  # type: ignore[no-untyped-call]
    task = start_task(_call, pickled, **needs)
    try:
        return await task
    except asyncio.CancelledError:
        ray.cancel(task, force=True)
        raise
    except RayTaskError as error:
        raise error.cause from None


def _call(pickled: bytes) -> Any:
    function, arguments = cloudpickle.loads(pickled)
    try:
        result = function(**arguments)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result
    except (StopIteration, StopAsyncIteration) as error:
        # On its way back it would end somebody else's iteration.
        raise _told(error) from None
    except Exception:
        raise
    except BaseException as error:
        # Ray takes these for the end of its worker, or for a cancellation of its own.
        raise _told(error) from None


def _told(error: BaseException) -> RuntimeError:
    return RuntimeError(f"{code_of(error)}: {error_text(error)}".removesuffix(": "))


async def _awaited(result: Any) -> Any:
    return await result
