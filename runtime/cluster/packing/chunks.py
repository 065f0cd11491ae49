"""Pickling of definitions, and chunks: arguments of an actor that Ray keeps even when the driver is gone."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from ray import cloudpickle

from actors.errors import DefinitionError

CHUNK_BYTES = 64 * 1024
"""Ray stores arguments of less than 100 kB with the actor. A larger one stays in the driver's memory, and is lost with it."""

MAX_BYTES = 8 * 1024 * 1024
"""Ray stores 10 MiB of arguments with an actor, and no more."""


def pickled(refusal: str, value: object) -> bytes:
    """A value for another process. Raises DefinitionError, which begins with `refusal`, when it cannot be pickled."""
    try:
        raw: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        # User code in a definition decides what pickling raises.
        raise DefinitionError(f"{refusal}: {type(error).__name__}: {error}") from error
    return raw


def pickled_plan(flow: str, plan: object) -> bytes:
    """The definition of a flow for its agents. Raises DefinitionError."""
    return pickled(f"flow {flow!r} cannot travel to its agents", plan)


def to_chunks(refusal: str, value: object, *, must_last: bool = False) -> list[bytes]:
    """Pickle and compress a value of any size, and cut it in chunks of at most CHUNK_BYTES, for `from_chunks`.

    Args:
        refusal: begins the error.
        must_last: Ray has to keep the chunks after the driver has gone, so there may be at most MAX_BYTES.

    Raises:
        DefinitionError: the value cannot be pickled; or it is too large and `must_last`.
    """
    raw = zlib.compress(pickled(refusal, value), level=1)
    if must_last and len(raw) > MAX_BYTES:
        raise DefinitionError(
            f"{refusal}: it has {len(raw)} bytes, and a detached deployment may have {MAX_BYTES}: keep large data in files "
            "or artifacts, not in definitions"
        )
    return [raw[start : start + CHUNK_BYTES] for start in range(0, len(raw), CHUNK_BYTES)]


def from_chunks(chunks: Sequence[bytes]) -> Any:
    """The value that a driver of this deployment gave to `to_chunks`."""
    return cloudpickle.loads(zlib.decompress(b"".join(chunks)))
