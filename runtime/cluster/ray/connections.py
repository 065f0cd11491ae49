"""Short connections with a Ray, by public interfaces only: for what this process otherwise asks Ray without a connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import ray


@contextmanager
def connected(address: str) -> Iterator[str]:
    """The connection of this process with a Ray, made for the block if there is none.

    Args:
        address: `host:port`, or "auto": of the Ray that runs on this machine.

    Yields:
        Where that Ray is, as `host:port`.

    Raises:
        ConnectionError: there is no such Ray; or this process is connected with another one.
        RuntimeError, OSError, ValueError, RayError: Ray's own, when it cannot be joined.
    """
    is_own = not ray.is_initialized()
    if is_own:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        where = str(ray.get_runtime_context().gcs_address)
        if address not in ("auto", where):
            raise ConnectionError(f"this process is connected with the Ray at {where!r}, and can ask no other one")
        yield where
    finally:
        if is_own:
            ray.shutdown()
