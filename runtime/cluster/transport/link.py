"""How an actor in another process is asked over Ray: again and again, as long as it may be away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ray.exceptions import RayTaskError

from actors.errors import ActorLostError, ActorRestartsError, ClusterError
from runtime.cluster.ray.absence import AbsentActorError, is_away
from runtime.cluster.transport.ray_actors import Handle
from runtime.transport.protocol.frames import HandlerFailedError

LIVED_S = 5.0
"""A try that lasted longer was with a living actor. Ray takes 2 s to say of an actor that it is away."""

T = TypeVar("T")

RETRY_S = 0.05
"""Time between two attempts to reach an actor that is being restarted."""

ASK_AGAIN_S = 0.03
"""When a process that has not answered is asked once more."""

ASK_LESS_OFTEN = 1.5
"""By how much each further pause is longer: a process that is stopped for a minute is asked 17 times."""


class ProcessReplacedError(Exception):
    """The process that a message was sent to is gone, and another one has taken its place."""


class StandsByError(Exception):
    """A process that stands by has got a message for the one that leads, over Ray, and has not handled it."""


class ProcessUnreachableError(Exception):
    """The process that a message was sent to lives, and could not be reached for too long to learn its reply.

    Nor can it after this process has closed its connections.
    """


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
        once: see ActorLink.send, also for what it raises.
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


async def first_answer(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ask a process again and again, until one of the questions has an answer. Raises what all that have one raise.

    Ray learns later than this process that another one is gone. It puts a question that comes in between aside, and looks at
    that once a second; one that comes when it starts the process again is answered as soon as that runs.
    """
    asked: set[asyncio.Task[T]] = set()
    answered: set[asyncio.Task[T]] = set()
    pause_s = ASK_AGAIN_S
    try:
        while True:
            asked.add(asyncio.create_task(ask()))
            answered, asked = await asyncio.wait(asked, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            if answered:
                return min(answered, key=lambda each: each.exception() is not None).result()
            pause_s *= ASK_LESS_OFTEN
    finally:
        for each in asked:
            each.cancel()
        # What one has raised has this frame in its traceback, and would keep itself.
        asked.clear()
        answered.clear()


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
