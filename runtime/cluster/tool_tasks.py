"""Tools that run as Ray tasks, where the cluster has the resources that they need."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayTaskError

from actors.errors.tracebacks import keep_traceback
from actors.errors.user_code import code_of, error_text
from actors.interfaces.telemetry import RunFacts, current_run
from actors.messages.json_types import JsonMapping
from runtime.cluster.logs import task_logs
from runtime.cluster.transport.ray_actors import Handle, start_task
from runtime.engine.process.variables import set_variables
from runtime.observability.logs.sinks import LogOptions


class ToolTasks:
    """Implements `actors.interfaces.context.Offload`. A task is killed when its turn is cancelled, and never run twice.

    Args:
        runner: takes their lines.
        variables: environment variables for the tasks' processes.
    """

    def __init__(self, logs: LogOptions, runner: Handle, variables: Mapping[str, str]) -> None:
        self._logs = logs
        self._runner = runner
        self._variables = dict(variables)

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any], needs: JsonMapping) -> Any:
        """Run a function as a task. Raises what it raises."""
        pickled: bytes = cloudpickle.dumps((function, dict(arguments)))  # type: ignore[no-untyped-call]
        task = start_task(_run, pickled, self._variables, self._logs, self._runner, current_run(), **needs)
        try:
            return await task
        except asyncio.CancelledError:
            ray.cancel(task, force=True)
            raise
        except RayTaskError as error:
            raise error.cause from None


def _run(pickled: bytes, variables: Mapping[str, str], logs: LogOptions, runner: Handle, run: RunFacts) -> Any:
    set_variables(variables)
    with task_logs(logs, runner, run):
        return _call(pickled)


def _call(pickled: bytes) -> Any:
    function, arguments = cloudpickle.loads(pickled)
    try:
        result = function(**arguments)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result
    except (StopIteration, StopAsyncIteration) as error:
        # Raised again in the caller, it would end an iteration there.
        raise _as_runtime_error(error) from None
    except Exception as error:
        # Ray keeps the error, and not where it was raised.
        keep_traceback(error)
        raise
    except BaseException as error:
        # Ray takes a BaseException for the end of its worker, or for its own cancellation.
        raise _as_runtime_error(error) from None


def _as_runtime_error(error: BaseException) -> RuntimeError:
    raised = RuntimeError(f"{code_of(error)}: {error_text(error)}".removesuffix(": "))
    keep_traceback(raised, of=error)
    return raised


async def _awaited(result: Any) -> Any:
    return await result
