"""Definitions, as they travel from a driver to a process that may outlive it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from ray import cloudpickle

from actors.errors import DefinitionError

PIECE_BYTES = 64 * 1024
"""Ray sends arguments of less than 100 kB along; a larger one stays with whoever sends it, and is lost with him."""

MOST_BYTES = 8 * 1024 * 1024
"""Ray sends 10 MiB of arguments along, no more."""


def packed(refusal: str, value: object) -> bytes:
    """A value as it travels to another process. Raises DefinitionError, which begins with `refusal`."""
    try:
        pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        # What the user has put into a definition decides what pickling raises.
        raise DefinitionError(f"{refusal}: {type(error).__name__}: {error}") from error
    return pickled


def packed_plan(flow: str, plan: object) -> bytes:
    """The definition of a flow as it travels. Raises DefinitionError."""
    return packed(f"flow {flow!r} cannot travel to its agents", plan)


def parcel(refusal: str, value: object, *, must_last: bool = False) -> list[bytes]:
    """A value of any size in pieces, each an argument that Ray keeps for as long as it may start the actor again.

    Args:
        refusal: begins the error.
        must_last: the driver may be gone by then.

    Raises:
        DefinitionError: it cannot be pickled; or it must last and is so large that Ray would leave it with the driver.
    """
    raw = zlib.compress(packed(refusal, value), level=1)
    if must_last and len(raw) > MOST_BYTES:
        raise DefinitionError(
            f"{refusal}: it has {len(raw)} bytes, and a detached deployment may have {MOST_BYTES}: keep large data in files "
            "or artifacts, not in definitions"
        )
    return [raw[start : start + PIECE_BYTES] for start in range(0, len(raw), PIECE_BYTES)]


def unpacked(pieces: Sequence[bytes]) -> Any:
    """What a driver of this deployment has put into a parcel."""
    return cloudpickle.loads(zlib.decompress(b"".join(pieces)))
