"""Messages to the process of an actor, over a direct connection or over Ray. Ray is the judge of whether that process lives.

Where no connection can be made, messages wait for one, or go over Ray, as where a firewall is between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

from actors.interfaces.telemetry import tell_event
from actors.interfaces.transport import EarlyReply, Link
from actors.messages.protocol.statistics import UnreachedPeer
from actors.rules.backoff import Backoff
from runtime.cluster.transport.link import (
    RETRY_S,
    ProcessReplacedError,
    ProcessUnreachableError,
    delivered,
    first_answer,
    host_failed,
    over_ray,
)
from runtime.cluster.transport.ray_actors import Handle
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ChannelCall, ConnectionLostError
from runtime.transport.io.channel import Channel, Channels
from runtime.transport.protocol.frames import HandlerFailedError

logger = logging.getLogger(__name__)


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


PAUSE_S = 60.0
"""Time between two attempts to connect."""


class RayFallback:
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


PATIENCE_S = 60.0
"""How long a process that lives may be out of reach, where a link has no patience with restarts. Servers keep replies so long."""

QUIET_S = 30.0
"""When a process answers neither over its connection nor over Ray for this long, the log says so."""


class ActorLink:
    """Implements `actors.interfaces.transport.Link` for an actor in another process.

    Args:
        name: the actor's, for error messages.
        restart_timeout_s: how long Ray may take each time to restart the actor; 0: the first failure counts as its loss.
        slot: the actor's number, in a host that has several.
    """

    def __init__(self, peer: Peer, name: str, restart_timeout_s: float, slot: int) -> None:
        self.name = name
        self._peer = peer
        self._restart_timeout_s = restart_timeout_s
        self._slot = slot

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply.

        Args:
            once: do not send the message again when the actor is being restarted.
            early: not used where messages go over Ray: a call of Ray's has one reply.

        Raises:
            ActorLostError: the actor's process is gone, or was away for longer than `restart_timeout_s`. Or it lives, and could
                not be reached for so long, or for 60 s where that is 0.
            ActorRestartsError: the actor is being restarted; only with `once`.
            ClusterError: the host failed, or the message could not be unpickled there.
        """
        first: Awaitable[bytes] | None = None
        channel = self._peer.open_channel()
        if channel is not None:
            # Nearly every message goes this way, and through as few functions as it can.
            call = ChannelCall(raw, self._slot, 0, channel, early)
            try:
                return await channel.submit(call)
            except ConnectionLostError as error:
                first = self._peer.replied(call, self._restart_timeout_s or PATIENCE_S, error)
            except HandlerFailedError as error:
                raise host_failed(self.name, error) from error
            except BaseException:
                channel.abandon(call)
                raise
        patience_s = self._restart_timeout_s or PATIENCE_S
        return await delivered(
            lambda: self._peer.deliver(raw, self._slot, patience_s, early),
            self.name,
            self._restart_timeout_s,
            once=once,
            first=first,
        )


class Peer:
    """The process of a Ray actor: where it listens, and the messages to it.

    Args:
        name: of the actor, or of the process, for statistics.
        connections: None: all messages go over Ray.
    """

    def __init__(self, handle: Handle, name: str, connections: Channels | None) -> None:
        self._handle = handle
        self._name = name
        self._connections = connections
        self._channel: Channel | None = None
        self._asking: asyncio.Task[Channel | None] | None = None
        self._outage: Outage | None = None
        self._fallback: RayFallback | None = None

    @property
    def unreached(self) -> UnreachedPeer | None:
        """Set while no connection to it can be made."""
        return self._fallback.unreached if self._fallback is not None and not self._fallback.is_over else None

    def link(self, name: str, restart_timeout_s: float = 0.0, slot: int = 0) -> Link:
        """A link to an actor in the process: see ActorLink."""
        return ActorLink(self, name, restart_timeout_s, slot)

    def listens_at(self, endpoint: Endpoint | None) -> None:
        """Where the process listens, as it has said itself: Ray need not be asked. None where messages come over Ray."""
        if self._connections is not None and self._channel is None and endpoint is not None:
            self._channel = self._connections.to(endpoint)

    def open_channel(self) -> Channel | None:
        """The way of a message for which nothing has to be asked or waited for: there is a connection. None: see `deliver`."""
        channel = self._channel
        return channel if channel is not None and self._fallback is None and channel.is_connected else None

    async def deliver(self, raw: bytes, slot: int, patience_s: float, early: EarlyReply | None = None) -> bytes:
        """Send a message and return the reply.

        When a connection breaks, the process is asked over Ray where it listens. What follows depends on the answer:

        - There is none. The process is stopped, or code in it blocks its event loop, and the message waits as a call of Ray's
          does: without limit, until the process goes on, or until Ray says that it is gone.
        - Another process has taken its place, or Ray says that it is gone: the errors below.
        - It lives, and listens where it did. A message that was never sent goes over Ray. One that was sent may be at work there,
          and only a direct connection knows it again: so it waits for one, for `patience_s` at most, and is never sent over Ray.
          Time in which the process did not answer over Ray does not count.

        Args:
            patience_s: how long a process that lives may be out of reach.
            early: see Link.send. Replies over Ray bring none.

        Raises:
            ProcessReplacedError: the process that it was sent to has given way to another one.
            ProcessUnreachableError: that process lives, and could not be reached for so long; or this one has closed its
                connections.
            ray.exceptions.RayActorError: as Ray says of the actor.
            HandlerFailedError: the host failed.
        """
        if self._connections is None:
            return await self._by_ray(raw, slot)
        if self._fallback is not None:
            self._fallback.look()
            if not self._fallback.is_over:
                return await self._by_ray(raw, slot)
            self._fallback = None
        channel = self._channel or await self._found()
        if channel is None:
            return await self._by_ray(raw, slot)
        return await self.replied(channel.call(raw, slot, early), patience_s)

    async def replied(self, call: ChannelCall, patience_s: float, lost: ConnectionLostError | None = None) -> bytes:
        """The reply to a call, whatever becomes of its connection: see `deliver`.

        Args:
            lost: the loss of which it has heard already.
        """
        channel = call.owner
        with call:
            while True:
                try:
                    if lost is None:
                        return await call.reply()
                    raise lost
                except ConnectionLostError as error:
                    # Kept in a variable, it would keep itself, and all that is here: its traceback has this frame.
                    lost = None
                    found = await self._found()
                    if found is not channel or error.loss.is_final:
                        if error.was_sent:
                            raise ProcessReplacedError(str(error)) from error
                        break
                    if not error.was_sent:
                        self._go_by_ray(error)
                        break
                    await self._outage_of(found, error).pause(error, patience_s)
        return await self.deliver(call.raw, call.slot, patience_s, call.early)

    async def _by_ray(self, raw: bytes, slot: int) -> bytes:
        """Send a message over Ray. Raises what `over_ray` raises."""
        return await over_ray(self._handle, raw, slot)

    def forget_process(self) -> None:
        """The process is ended: nothing is kept for it."""
        if self._fallback is not None:
            self._fallback.give_up()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _outage_of(self, channel: Channel, error: ConnectionLostError) -> Outage:
        if self._outage is None or self._outage.is_over or not self._outage.concerns(channel):
            self._outage = Outage(channel)
        return self._outage

    def _go_by_ray(self, error: ConnectionLostError) -> None:
        if self._fallback is None:
            tell_event("over Ray", "messages go over Ray, since there is no direct connection: %s", error)
            self._fallback = RayFallback(self._name, str(error), self._connects)

    async def _connects(self) -> bool:
        channel = await self._found()
        return channel is not None and await channel.connects()

    async def _found(self) -> Channel | None:
        """The channel to where Ray says that the process listens; None where it does not. Many may ask at the same time."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    def _asked(self, asking: asyncio.Task[Channel | None]) -> None:
        self._asking = None
        if not asking.cancelled():
            # All who have asked may be gone.
            asking.exception()

    async def _ask(self) -> Channel | None:
        before = self._channel
        # Not Ray either, which may have ended since.
        connections = self._open_connections()
        try:
            endpoint = await self._answer() if before is None else await self._answer_of(before)
        finally:
            # Why they are closed says more than Ray's error that follows from it.
            self._open_connections()
        self._channel = connections.to(endpoint) if endpoint is not None else None
        if before is not None and before is not self._channel:
            before.close()
        return self._channel

    def _open_connections(self) -> Channels:
        assert self._connections is not None
        if self._connections.closed_because:
            raise ProcessUnreachableError(self._connections.closed_because)
        return self._connections

    async def _answer(self) -> Endpoint | None:
        endpoint: Endpoint | None = await self._handle.endpoint.remote()
        return endpoint

    async def _answer_of(self, channel: Channel) -> Endpoint | None:
        """Where a process listens that was reached before."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        quiet = loop.call_later(QUIET_S, self._tell_quiet, channel)
        try:
            return await first_answer(self._answer)
        finally:
            quiet.cancel()
            if loop.time() - asked_s > BUSY_S:
                self._outage = None

    def _tell_quiet(self, channel: Channel) -> None:
        logger.warning(
            "the process at %s has answered neither directly nor over Ray for %g s; messages to it wait", channel.address, QUIET_S
        )
