"""Messages to a process that no direct connection reaches: they wait for one, or go over Ray, as where a firewall is between."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

from actors.interfaces.deployment_events import tell_event
from actors.messages.protocol.statistics import UnreachedPeer
from actors.rules.recovery.backoff import Backoff
from runtime.cluster.transport.link import RETRY_S, ProcessUnreachableError
from runtime.transport.io.channel import Channel
from runtime.transport.io.errors import ConnectionLostError

BACKOFF = Backoff(first_s=RETRY_S, longest_s=1.0)
"""How long to wait between two attempts to reach a process that lives."""

TOLD_FAILURE = 3
"""With this failed attempt the log tells of an outage. One or two may fail when a process that was stopped goes on."""

BUSY_S = 5.0
"""A process that took longer to answer over Ray was stopped or busy, so it is no wonder that no connection reached it."""


class Outage:
    """The time in which one process cannot be reached, for all messages that were sent to it and have no reply.

    Args:
        channel: to the process, whose connection is lost.
    """

    def __init__(self, channel: Channel) -> None:
        self._clock = asyncio.get_running_loop().time
        self._channel = channel
        self._read_bytes = channel.traffic[0]
        self._since_s = self._clock()
        self._pausing: asyncio.Task[None] | None = None
        self._failures = 0

    @property
    def is_over(self) -> bool:
        """True when something was read from the process since: a reply, or a sign that it works on a request."""
        return self._channel.traffic[0] != self._read_bytes

    def concerns(self, channel: Channel) -> bool:
        """True when it is about this process."""
        return channel is self._channel

    async def pause(self, cause: ConnectionLostError, patience_s: float) -> None:
        """Wait until the next attempt, which is the same one for all messages. The pauses grow.

        Args:
            cause: of the last attempt that failed.

        Raises:
            ProcessUnreachableError: it lasts for longer than `patience_s`.
        """
        lasts_s = self._clock() - self._since_s
        if lasts_s >= patience_s:
            raise ProcessUnreachableError(f"it lives, and could not be reached for {lasts_s:.0f} s: {cause}") from cause
        if self._pausing is None or self._pausing.done():
            self._failures += 1
            if self._failures == TOLD_FAILURE:
                logger.warning(
                    "the process at %s lives, and has not been reached for %.1f s; messages that it may have got wait: %s",
                    self._channel.address,
                    lasts_s,
                    cause,
                )
            self._pausing = asyncio.create_task(asyncio.sleep(BACKOFF.after_attempts(self._failures)))
        await asyncio.shield(self._pausing)


logger = logging.getLogger(__name__)

PAUSE_S = 60.0
"""Time between two attempts to connect."""


class Detour:
    """The way over Ray to one process. From time to time a connection is tried again, while messages go on over Ray.

    Attributes:
        unreached: what statistics tell of it.
        is_over: there is a connection, or the process is ended.

    Args:
        reason: why there is no connection.
        connect: tries to make one, and says whether there is one now.
    """

    def __init__(self, peer: str, reason: str, connect: Callable[[], Awaitable[bool]]) -> None:
        self.unreached = UnreachedPeer(peer=peer, since_s=time.time(), reason=reason)
        self.is_over = False
        self._connect = connect
        self._clock = asyncio.get_running_loop().time
        self._again_s = self._clock() + PAUSE_S
        self._attempt: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Begin to connect again, if it is time for it. No message waits for it, which a firewall may let run out of time."""
        if self._attempt is None and not self.is_over and self._clock() >= self._again_s:
            self._attempt = asyncio.create_task(self._try())

    def give_up(self) -> None:
        """The process is ended."""
        self.is_over = True
        if self._attempt is not None:
            self._attempt.cancel()

    async def _try(self) -> None:
        try:
            self.is_over = await self._connect()
        except (RayError, ProcessUnreachableError):
            # Messages, which go over Ray, will tell.
            logger.debug("%s cannot be asked where it listens", self.unreached.peer, exc_info=True)
        finally:
            self._attempt = None
            self._again_s = self._clock() + PAUSE_S
        if self.is_over:
            peer = self.unreached.peer
            tell_event("direct again", "messages to %s go over a direct connection again", peer, level=logging.INFO)
