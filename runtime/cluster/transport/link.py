"""The link to an actor in another process, over Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ray.exceptions import RayTaskError

from actors.errors import ActorLostError, ActorRestartsError, ClusterError
from actors.interfaces.transport import EarlyReply
from runtime.cluster.ray.absence import AbsentActorError, is_away
from runtime.cluster.transport.ray_actors import Handle
from runtime.transport.protocol.errors import HandlerFailedError

LIVED_S = 5.0
"""A try that lasted longer was with a living actor. Ray takes 2 s to say of an actor that it is away."""

T = TypeVar("T")

RETRY_S = 0.05
"""Time between two attempts to reach an actor that is being restarted."""


class ProcessReplacedError(Exception):
    """The process that a message was sent to is gone, and another one has taken its place."""


class StandsByError(Exception):
    """A process that stands by has got a message for the one that leads, over Ray, and has not handled it."""


class ProcessUnreachableError(Exception):
    """The process that a message was sent to lives, and could not be reached for too long to learn its reply.

    Nor can it after this process has closed its connections.
    """


class RayLink:
    """Implements `actors.interfaces.transport.Link` for the actor in a host.

    Args:
        name: the actor's, for error messages.
        restart_timeout_s: how long Ray may take each time to restart the actor; 0: the first failure counts as its loss.
        slot: the actor's number, in a host that has several.
    """

    def __init__(self, handle: Handle, name: str, restart_timeout_s: float = 0.0, slot: int = 0) -> None:
        self.handle = handle
        self.name = name
        self._restart_timeout_s = restart_timeout_s
        self._slot = slot

    def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> Coroutine[Any, Any, bytes]:
        """Deliver a message and return the reply.

        Args:
            once: do not send the message again when the actor is being restarted.
            early: not used: a call of Ray's has one reply.

        Raises:
            ActorLostError: the actor's process is gone, or was away for longer than `restart_timeout_s`.
            ActorRestartsError: the actor is being restarted; only with `once`.
            ClusterError: the host failed, or the message could not be unpickled there.
        """
        return delivered(lambda: over_ray(self.handle, raw, self._slot), self.name, self._restart_timeout_s, once=once)


async def over_ray(handle: Handle, raw: bytes, slot: int) -> bytes:
    """Send a message to the actor in a slot of a host, as a call of Ray's.

    Raises:
        ProcessReplacedError: the process stands by. Ray has kept the call until that was started in place of a lost one.
        ray.exceptions.RayError: as Ray says.
    """
    # Slot 0 is the default of `receive`, and most hosts have one actor only: nothing is sent along for it.
    reply: Awaitable[bytes] = handle.receive.remote(raw, slot) if slot else handle.receive.remote(raw)
    try:
        return await reply
    except StandsByError as error:
        raise ProcessReplacedError(last_line(error)) from error


async def delivered(
    attempt: Callable[[], Awaitable[bytes]],
    name: str,
    restart_timeout_s: float,
    *,
    once: bool,
    first: Awaitable[bytes] | None = None,
) -> bytes:
    """Try to deliver a message for as long as its actor may take to be restarted. Returns the reply.

    Args:
        attempt, name, restart_timeout_s, first: see `answered`; the attempt may raise HandlerFailedError as well.
        once: see RayLink.send, also for what it raises.
    """
    try:
        return await answered(attempt, name, restart_timeout_s, once=once, first=first)
    except RayTaskError as error:
        raise ClusterError(f"{name} failed: {error.cause or error}") from error
    except HandlerFailedError as error:
        raise host_failed(name, error) from error


async def answered(
    attempt: Callable[[], Awaitable[T]],
    name: str,
    restart_timeout_s: float,
    *,
    once: bool = False,
    first: Awaitable[T] | None = None,
) -> T:
    """Ask an actor for as long as it may take to be restarted. Returns its answer.

    Args:
        attempt: asks it, and awaits the answer; raises Ray's errors, ProcessReplacedError or ProcessUnreachableError.
        name: the actor's, for error messages.
        restart_timeout_s: how long Ray may take each time to restart the actor; 0: the first failure counts as its loss.
        once: do not ask again when the actor is being restarted.
        first: an attempt that is under way.

    Raises:
        ActorLostError: the actor's process is gone, or was away for longer than `restart_timeout_s`.
        ActorRestartsError: the actor is being restarted; only with `once`.
        ray.exceptions.RayTaskError: its process has raised an error.
    """
    clock = asyncio.get_running_loop().time
    away_s: float | None = None
    while True:
        sent_s = clock()
        try:
            begun, first = first or attempt(), None
            return await begun
        except (AbsentActorError, ProcessReplacedError) as error:
            if isinstance(error, AbsentActorError) and not is_away(error):
                raise ActorLostError(name, last_line(error)) from error
            now_s = clock()
            away_s = away_since_s(away_s, sent_s=sent_s, now_s=now_s)
            if now_s - away_s >= restart_timeout_s:
                raise ActorLostError(name, last_line(error)) from error
            if once:
                raise ActorRestartsError(name, last_line(error)) from error
            # Ray does not notify when the actor runs again.
            await asyncio.sleep(RETRY_S)
        except ProcessUnreachableError as error:
            # It may be at work on the message, so that is not sent again.
            raise ActorLostError(name, last_line(error)) from error


def host_failed(name: str, error: HandlerFailedError) -> ClusterError:
    """The error of an actor whose host has failed on a message."""
    return ClusterError(f"{name} failed: {error}")


def last_line(error: Exception) -> str:
    """The last line of a message that is not empty; in those of Ray it holds the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def away_since_s(since_s: float | None, *, sent_s: float, now_s: float) -> float:
    """Since when an actor is away, after a try has failed.

    Patience is with one absence, not with a request: a request may lie with an actor for hours, and see it go several times. A
    request whose tries all end soon may be what ends the actor: its patience is never renewed.

    Args:
        since_s: since when it was away before that try; None when the try was the first.
        sent_s: when the try was sent.
    """
    return now_s if since_s is None or now_s - sent_s > LIVED_S else since_s
