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
from actors.messages.json_types import JsonMapping
from runtime.cluster.transport.ray_actors import start_task


async def as_task(function: Callable[..., Any], arguments: Mapping[str, Any], needs: JsonMapping) -> Any:
    """Implements `actors.interfaces.context.Offload`. A task is killed when its turn is cancelled, and never run twice."""
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
        # Raised again in the caller, it would end an iteration there.
        raise _as_runtime_error(error) from None
    except Exception:
        raise
    except BaseException as error:
        # Ray takes a BaseException for the end of its worker, or for its own cancellation.
        raise _as_runtime_error(error) from None


def _as_runtime_error(error: BaseException) -> RuntimeError:
    return RuntimeError(f"{code_of(error)}: {error_text(error)}".removesuffix(": "))


async def _awaited(result: Any) -> Any:
    return await result
