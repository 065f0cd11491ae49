"""Messages to a process go over Ray while no direct connection to it can be made: by a firewall, for example."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

from actors.interfaces.deployment_events import tell_event
from actors.messages.protocol.statistics import UnreachedPeer
from runtime.cluster.transport.link import ProcessUnreachableError

logger = logging.getLogger(__name__)

PAUSE_S = 60.0
"""Time between two attempts to connect."""


class Detour:
    """The way over Ray to one process. From time to time a connection is tried again, while messages go on over Ray.

    Attributes:
        unreached: what statistics tell of it.
        is_over: there is a connection, or the process is ended.

    Args:
        peer: the process's name.
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
