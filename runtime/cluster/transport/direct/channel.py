"""The requests of this process to one other process. They outlive the connection that they are sent over.

Rules of this file:
1. A request is numbered and kept when it is first written, and until it has its reply. Each new connection to the same process
   writes all that are kept again, in their order; the server runs none twice.
2. A connection is made when there is something to send. When it breaks while requests wait, it is made again at once.
3. When that fails, all that wait get a ConnectionLostError. Those that were sent stay kept: a caller that learns by other means
   that the process lives may wait on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import cast

from runtime.cluster.transport.direct.client_connection import ClientConnection
from runtime.cluster.transport.direct.dialing import Dialer, DialError
from runtime.cluster.transport.direct.endpoint import Endpoint
from runtime.cluster.transport.direct.errors import ConnectionLostError, HandlerFailedError, Loss
from runtime.cluster.transport.direct.handshake import CLIENT_BYTES, VERSION, Admission, Claim, ClientHandshake, Welcome
from runtime.cluster.transport.direct.options import DirectOptions

MAX_CUTS = 3
"""Connections that may break one after the other, without a reply on any of them, before callers hear of it."""


class Call:
    """One request, and the wait for its reply. A context manager: what leaves it early needs no reply.

    Attributes:
        number: 0 until the request is first written.
        future: of the reply, while it is waited for.
    """

    __slots__ = ("_channel", "future", "number", "raw", "slot")

    def __init__(self, channel: Channel, raw: bytes, slot: int) -> None:
        self._channel = channel
        self.raw = raw
        self.slot = slot
        self.number = 0
        self.future: asyncio.Future[bytes] | None = None

    def __enter__(self) -> Call:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and self.number:
            self._channel.abandon(self.number)

    async def reply(self) -> bytes:
        """Send the request, unless it was sent before, and wait for the reply.

        After a ConnectionLostError whose loss is not final it may be called again: the handler still runs once. After a
        cancellation it may not.

        Raises:
            ConnectionLostError: there is no connection to the process.
            HandlerFailedError: the handler has raised an error.
        """
        if self.future is None:
            self._channel.submit(self)
        return await cast("asyncio.Future[bytes]", self.future)


class Channel:
    """Requests to the process at an endpoint. It belongs to one event loop.

    Attributes:
        endpoint: of the process.
        reconnects: how often the connection was made again.

    Args:
        retired: called when the channel can never be used again.
    """

    def __init__(self, endpoint: Endpoint, dialer: Dialer, options: DirectOptions, retired: Callable[[Channel], None]) -> None:
        self.endpoint = endpoint
        self.reconnects = 0
        self._address = endpoint.address(dialer.node)
        self._dialer = dialer
        self._options = options
        self._retired = retired
        self._loop = asyncio.get_running_loop()
        self._client = secrets.token_bytes(CLIENT_BYTES)
        self._was_connected = False
        self._attempts = 0
        self._cuts = 0
        self._last_number = 0
        self._calls: dict[int, Call] = {}
        self._line: deque[Call] = deque()
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._end: DialError | None = None
        self._traffic = (0, 0)

    async def request(self, raw: bytes, slot: int = 0) -> bytes:
        """Send a request and wait for the reply; with the errors of `Call.reply`, after which it cannot be waited on."""
        with Call(self, raw, slot) as call:
            return await call.reply()

    def call(self, raw: bytes, slot: int = 0) -> Call:
        """A request that can be waited on beyond the loss of connections."""
        return Call(self, raw, slot)

    async def close(self) -> None:
        """End the connection. What waits gets a ConnectionLostError, and the server drops the replies."""
        if self._connecting is not None:
            self._connecting.cancel()
        self._retire(DialError(Loss.CLOSED))
        if self._connection is not None:
            self._connection.leave()

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    @property
    def is_waiting(self) -> bool:
        """True while there are requests without a reply."""
        return bool(self._calls)

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes read and written, on all connections."""
        read_bytes, written_bytes = self._traffic
        if self._connection is None:
            return read_bytes, written_bytes
        return read_bytes + self._connection.read_bytes, written_bytes + self._connection.outbox.written_bytes

    def submit(self, call: Call) -> None:
        """Wait for the reply to a request, which is written now, when there is room, or was before."""
        call.future = self._loop.create_future()
        connection = self._connection
        if not call.number:
            if connection is not None and not self._line and not connection.is_full:
                self._write(call, connection)
                return
            self._line.append(call)
        elif call.number not in self._calls:
            self._give(call, self._end or DialError(Loss.FORGOTTEN))
            return
        if connection is None:
            self._connect()

    def abandon(self, number: int) -> None:
        """Need no reply to a request."""
        if self._calls.pop(number, None) is not None and self._connection is not None:
            self._connection.abandon(number)

    def replied(self, number: int, reply: bytes) -> None:
        """See Replies."""
        self._cuts = 0
        call = self._calls.pop(number, None)
        if call is not None:
            if call.future is None:
                call.future = self._loop.create_future()
            if not call.future.done():
                call.future.set_result(reply)

    def failed(self, number: int, error: HandlerFailedError) -> None:
        """See Replies."""
        self._cuts = 0
        call = self._calls.pop(number, None)
        if call is not None:
            if call.future is None:
                call.future = self._loop.create_future()
            if not call.future.done():
                call.future.set_exception(error)
                # Asked for, since nothing may wait for it at the moment: asyncio would complain.
                call.future.exception()

    def has_room(self) -> None:
        """See Replies."""
        while self._line and self._connection is not None and not self._connection.is_full:
            call = self._line.popleft()
            if call.future is not None and not call.future.done():
                self._write(call, self._connection)

    def lost(self, connection: ClientConnection) -> None:
        """See Replies."""
        self._traffic = self.traffic
        self._connection = None
        if self._is_needed():
            self._cuts += 1
            if self._cuts < MAX_CUTS:
                self._connect()
            else:
                self._tell(DialError(Loss.CUT))

    def _write(self, call: Call, connection: ClientConnection) -> None:
        self._last_number += 1
        call.number = self._last_number
        self._calls[call.number] = call
        connection.write_request(call.number, call.raw, call.slot)

    def _is_needed(self) -> bool:
        return bool(self._line) or any(call.future is not None for call in self._calls.values())

    def _connect(self) -> None:
        if self._end is not None:
            self._tell(self._end)
        elif self._connecting is None:
            self._connecting = self._loop.create_task(self._make_connection())

    async def _make_connection(self) -> None:
        try:
            while self._connection is None and self._is_needed():
                await self._dial()
        finally:
            self._connecting = None

    async def _dial(self) -> None:
        self._attempts += 1
        claim = Claim(VERSION, self._client, self._attempts, self.endpoint.boot)
        try:
            await self._dialer.dial(self.endpoint, ClientHandshake(self._dialer.secret, claim), self._take_over)
        except DialError as error:
            if self._connection is not None:
                # Made in the moment in which the time was over.
                return
            if error.loss in (Loss.OTHER_BOOT, Loss.OTHER_VERSION):
                self._retire(error)
            elif error.loss in (Loss.NOT_ADMITTED, Loss.CUT) and self._cuts + 1 < MAX_CUTS:
                self._cuts += 1
            else:
                self._tell(error)

    def _take_over(self, transport: asyncio.Transport, welcome: Welcome) -> ClientConnection:
        connection = ClientConnection(transport, self._address, self, self._options)
        transport.set_protocol(connection)
        if self._was_connected:
            self.reconnects += 1
            if welcome.admission == Admission.NEW:
                self._forget_calls()
            connection.write_wanted(list(self._calls))
        for call in self._calls.values():
            connection.write_request(call.number, call.raw, call.slot)
        self._was_connected = True
        self._connection = connection
        self.has_room()
        return connection

    def _forget_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._give(call, DialError(Loss.FORGOTTEN))

    def _tell(self, error: DialError) -> None:
        self._cuts = 0
        line, self._line = self._line, deque()
        for call in (*self._calls.values(), *line):
            self._give(call, error)
        if error.loss.is_final:
            self._calls.clear()

    def _give(self, call: Call, error: DialError) -> None:
        future, call.future = call.future, None
        if future is not None and not future.done():
            future.set_exception(ConnectionLostError(self._address, error.loss, bool(call.number), error.details))

    def _retire(self, error: DialError) -> None:
        self._end = self._end or error
        self._tell(error)
        self._retired(self)
