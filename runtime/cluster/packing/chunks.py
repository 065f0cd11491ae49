"""Pickling of definitions, and chunks: arguments of an actor that Ray keeps even when the driver is gone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ray import cloudpickle

from actors.errors import DefinitionError
from actors.layers.flows.definitions import FlowPlan
from runtime.cluster.packing.importing import unpickle
from runtime.cluster.packing.obstacles import obstacle
from runtime.engine.process.variables import set_variables

CHUNK_BYTES = 64 * 1024
"""Ray stores arguments of less than 100 kB with the actor. A larger one stays in the driver's memory, and is lost with it."""

_INSTEAD = "make it where it is used, leave it out in __getstate__, or define it in a module, which every process imports"

MAX_BYTES = 8 * 1024 * 1024
"""Ray stores 10 MiB of arguments with an actor, and no more."""


def pickled(refusal: str, value: object, parts: Callable[[], Mapping[str, object]] | None = None) -> bytes:
    """A value for another process.

    Args:
        parts: what the value is made of, by the names that its user knows; by default its attributes.

    Raises:
        DefinitionError: it cannot be pickled. The message begins with `refusal`, and names the attribute that is the cause.
    """
    with refused(refusal, parts if parts is not None else lambda: {"": value}):
        raw: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return raw


@contextmanager
def refused(refusal: str, parts: Callable[[], Mapping[str, object]]) -> Iterator[None]:
    """Pickle something inside.

    Args:
        parts: what it is made of, by the names that its user knows.

    Raises:
        DefinitionError: it cannot be pickled. The message begins with `refusal`, and names the attribute that is the cause.
    """
    try:
        yield
    except Exception as error:
        # User code in a definition decides what pickling raises.
        where = obstacle(parts(), _travels)
        cause = f", which is in {where}: {_INSTEAD}" if where else ""
        raise DefinitionError(f"{refusal}: {type(error).__name__}: {error}{cause}") from error


def _travels(value: object) -> bool:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True


def pickled_plan(flow: str, plan: FlowPlan) -> bytes:
    """The definition of a flow for its agents. Raises DefinitionError."""
    parts = {f"tools of task {task!r}": tools for task, tools in plan.tools.items()}
    types = {f"result_type of task {task!r}": result for task, result in plan.results.items()}
    return pickled(f"flow {flow!r} cannot travel to its agents", plan, lambda: {**parts, **types})


class ProcessVariables:
    """Environment variables for a process: unpickling it sets them there."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __reduce__(self) -> tuple[object, ...]:
        return _set_variables, (self._values,)


def _set_variables(values: Mapping[str, str]) -> ProcessVariables:
    set_variables(values)
    return ProcessVariables(values)


def to_chunks(refusal: str, value: object, *, must_last: bool = False, variables: Mapping[str, str] | None = None) -> list[bytes]:
    """Pickle and compress a value of any size, and cut it in chunks of at most CHUNK_BYTES, for `from_chunks`.

    Args:
        refusal: begins the error.
        variables: environment variables to set in the process that unpacks the value, before it is unpickled.
        must_last: Ray has to keep the chunks after the driver has gone, so there may be at most MAX_BYTES.

    Raises:
        DefinitionError: the value cannot be pickled; or it is too large and `must_last`.
    """
    # In this order, for the value's own classes may read variables when they are unpickled.
    packed = (ProcessVariables(variables or {}), value)
    raw = zlib.compress(pickled(refusal, packed, lambda: {"": value}), level=1)
    if must_last and len(raw) > MAX_BYTES:
        raise DefinitionError(
            f"{refusal}: it has {len(raw)} bytes, and a detached deployment may have {MAX_BYTES}: keep large data in files "
            "or artifacts, not in definitions"
        )
    return [raw[start : start + CHUNK_BYTES] for start in range(0, len(raw), CHUNK_BYTES)]


def from_chunks(chunks: Sequence[bytes]) -> Any:
    """The value that a driver of this deployment gave to `to_chunks`."""
    _, value = unpickle(zlib.decompress(b"".join(chunks)))
    return value
