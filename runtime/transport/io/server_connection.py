"""A server's connection with one client, and what is at work for that client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from actors.errors.user_code import error_text, is_cancellation
from actors.interfaces.transport import EARLY_REPLY
from runtime.transport.io.connection import Connection
from runtime.transport.options import DirectOptions
from runtime.transport.protocol.frames import ProtocolError
from runtime.transport.protocol.server import RequestToRun, ServerSide

REQUESTS_AT_ONCE = 64
"""Requests of one client that begin in one pass of the event loop, so that those of others come between the thousands of one."""

Handler = Callable[[bytes, int], Awaitable[bytes]]
"""Takes a request and its slot, and returns the reply."""


class ServedClient:
    """The handlers that are at work for one client. They are never cancelled: what they return after it is gone is dropped.

    Attributes:
        side: what the protocol knows of the client.
        connection: the newest one, or None.

    Args:
        departed: holds this while handlers of a client that is gone are at work.
    """

    def __init__(self, handler: Handler, side: ServerSide, departed: set[ServedClient]) -> None:
        self._handler = handler
        self._departed = departed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self.side = side
        self.connection: ServerConnection | None = None

    def forget_client(self) -> None:
        """The client will not come again."""
        self.side.forget_client()
        if self._tasks:
            # The event loop itself holds tasks by weak references.
            self._departed.add(self)

    def run(self, request: RequestToRun) -> None:
        """Begin to work on a request."""
        self._tasks[request.number] = self._loop.create_task(self._run(request))

    async def _run(self, request: RequestToRun) -> None:
        number = request.number
        EARLY_REPLY.set(partial(self._reply_early, number))
        try:
            self.side.reply(number, await self._handler(request.raw, request.slot))
        except BaseException as error:
            # A handler runs code of users. Only the end of the event loop cancels this task.
            if is_cancellation(error):
                self.side.ended(number)
                raise
            self.side.failed(number, type(error).__name__, error_text(error))
        finally:
            del self._tasks[number]
            if not self._tasks:
                self._departed.discard(self)
        if self.connection is not None:
            self.connection.replied()

    def _reply_early(self, number: int, raw: bytes) -> None:
        self.side.reply_early(number, raw)
        if self.connection is not None:
            self.connection.pump()


class ServerConnection(Connection):
    """Carries the requests and replies of one client.

    Attributes:
        client: whose connection it is.

    Args:
        ended: called when the connection is gone; True: the client has said that it will not come again.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        address: str,
        client: ServedClient,
        options: DirectOptions,
        ended: Callable[[ServerConnection, bool], None],
    ) -> None:
        super().__init__(transport, address, client.side)
        self.client = client
        self._beat_s = options.beat_s
        self._ended = ended
        self._has_left = False
        self._is_held = False
        # Takes what is left of many requests, in the next pass of the event loop.
        self._rest: asyncio.Handle | None = None
        self._timer = asyncio.get_running_loop().call_later(options.beat_s, self._beat)

    def handle_events(self) -> None:
        """Run the client's requests, as long as it need not wait."""
        room = REQUESTS_AT_ONCE
        while room and not self.is_closed and (event := self.client.side.next_event()) is not None:
            if isinstance(event, RequestToRun):
                self.client.run(event)
                room -= 1
            else:
                self._has_left = True
                self.abort()
        if not room and self._rest is None:
            self._rest = asyncio.get_running_loop().call_soon(self._take_rest)
        self.go_on()

    def _take_rest(self) -> None:
        self._rest = None
        self.go_on()

    def replied(self) -> None:
        """Write a reply, and read on if the client need not wait any more. What is read next says if it has to."""
        if self._is_held:
            self.go_on()
        elif not self.is_closed:
            self.pump()

    def go_on(self) -> None:
        """Write what is there, and read on if the client need not wait any more."""
        if self.is_closed:
            return
        self.pump()
        must_wait = self._rest is not None or self.client.side.must_wait
        if must_wait and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()
        elif self._is_held and not must_wait:
            self._is_held = False
            # First what had been read when the client had to wait. That may have it wait again.
            self.take_events()
            if not self._is_held and not self.is_closed:
                self._transport.resume_reading()

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        super().resume_writing()
        self.go_on()

    def _beat(self) -> None:
        try:
            self.client.side.tick()
        except ProtocolError as error:
            self.fail(str(error))
        if not self.is_closed:
            self.pump()
            self._timer = asyncio.get_running_loop().call_later(self._beat_s, self._beat)

    def connection_closed(self) -> None:
        """The client is gone, or has to come again."""
        self._timer.cancel()
        self._ended(self, self._has_left)
