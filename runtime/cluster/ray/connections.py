"""Whether this process connects with a Ray: for a moment, to ask it something, and never by itself.

Ray connects by itself when one of its functions is called without a connection: it starts a Ray, or joins one that it finds.
A program may want that. A call of raygrove's that comes after the end of its Ray, from a thread that still runs, must not: the
program would hang, or leave a Ray running.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import FrameType

import ray

from runtime.cluster.ray.absence import AbsentActorError
from runtime.cluster.ray.names import PrivateName


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


_HOOKS = [
    PrivateName(
        f"ray._private.{module}", "auto_init_ray", "a program whose Ray has ended before its Runtime may start another one"
    )
    for module in ("auto_init_hook", "client_mode_hook")
]

OURS = ("actors", "runtime", "raygrove")
"""The packages whose calls have Ray not connect."""


class RayEndedError(AbsentActorError):
    """This program is not connected with Ray any more, so no actor can be reached."""

    def __init__(self) -> None:
        super().__init__(error_msg="this program has ended its connection with Ray")


def connect_for_programs_only() -> None:
    """Have Ray not connect by itself for a call of raygrove's, which then raises RayEndedError."""
    for hook in _HOOKS:
        with hook.or_without():
            connect = hook.find()
            if not hasattr(connect, "__wrapped__"):
                setattr(import_module(hook.module), hook.path, _for_programs_only(connect))


def _for_programs_only(connect: Callable[[], None]) -> Callable[[], None]:
    @wraps(connect)
    def connect_unless_ours() -> None:
        if not ray.is_initialized() and _caller(sys._getframe(1)) in OURS:
            raise RayEndedError
        connect()

    return connect_unless_ours


def _caller(frame: FrameType | None) -> str:
    """The package whose code has called Ray; "": it cannot be seen."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "ray":
            return package
        frame = frame.f_back
    return ""
