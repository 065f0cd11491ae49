"""The channels of this process, one to each other process. Their requests outlive the connections that they are sent over.

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
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Protocol

from actors.interfaces.transport import EarlyReply
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import CallTable, ChannelCall, Loss
from runtime.transport.io.connection import Connection
from runtime.transport.io.dialing import Dialer, DialError
from runtime.transport.options import DirectOptions
from runtime.transport.protocol.client import SILENT_TICKS, ClientEvent, ClientSide
from runtime.transport.protocol.handshake import CLIENT_BYTES, NONCE_BYTES, VERSION, Claim, ClientHandshake, Welcome

MAX_CUTS = 3
"""Connections that may break one after the other, without a reply on any of them, before callers hear of it."""


class ConnectionOwner(Protocol):
    """What a connection belongs to."""

    def happened(self, event: ClientEvent[Any]) -> None:
        """The server has said something about a request."""
        ...

    def has_room(self) -> None:
        """Requests can be written again without filling memory."""
        ...

    def lost(self, connection: ClientConnection) -> None:
        """The connection is gone."""
        ...


class ClientConnection(Connection):
    """Carries the requests and replies of a client's side, and notices when the server says nothing."""

    def __init__(
        self, transport: asyncio.Transport, address: str, side: ClientSide[Any], owner: ConnectionOwner, options: DirectOptions
    ) -> None:
        super().__init__(transport, address, side, options.requests_at_once)
        self._client = side
        self._owner = owner
        self._linger_s = options.connect_s
        self._tick_s = options.lost_s / SILENT_TICKS
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def handle_events(self) -> None:
        """Hand over what the server says."""
        while not self.is_closed and (event := self._client.next_event()) is not None:
            self._owner.happened(event)
        self.pump()

    def leave(self) -> None:
        """Tell the server that this client will not come again, and end the connection."""
        self._client.leave()
        self.close_written(self._linger_s)

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        super().resume_writing()
        if not self.is_closed and self._client.has_room:
            self._owner.has_room()

    def _tick(self) -> None:
        if not self._client.tick():
            self.fail(f"it has sent nothing for {self._tick_s * SILENT_TICKS:.1f} s")
        if not self.is_closed:
            self.pump()
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def connection_closed(self) -> None:
        """The server is gone, or has to be asked again."""
        self._timer.cancel()
        self._client.disconnected()
        self._owner.lost(self)


class Channel:
    """Requests to the process at an endpoint. It belongs to one event loop.

    Requests of at most `MAX_PAYLOAD` bytes reach the handler in the order in which they were sent; see Server.

    Attributes:
        address: that of the endpoint which is used, for messages and logs.
        reconnects: how often the connection was made again.

    Args:
        retired: called when the channel can never be used again.
    """

    def __init__(self, endpoint: Endpoint, dialer: Dialer, options: DirectOptions, retired: Callable[[Channel], None]) -> None:
        self.endpoint = endpoint
        self.reconnects = 0
        self.address = endpoint.address(dialer.node)
        self._dialer = dialer
        self._options = options
        self._retired = retired
        self._loop = asyncio.get_running_loop()
        self._client = secrets.token_bytes(CLIENT_BYTES)
        self._was_connected = False
        self._attempts = 0
        self._cuts = 0
        self._replies_before = 0
        self._side: ClientSide[ChannelCall] = ClientSide(options.max_message_bytes)
        self._calls = CallTable(self.address, self._side)
        # See ConnectionOwner.
        self.happened = self._calls.happened
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._end: DialError | None = None
        self._traffic = (0, 0)

    async def request(self, raw: bytes, slot: int = 0) -> bytes:
        """Send a request and wait for the reply; with the errors of `ChannelCall.reply`, after which it cannot be waited on."""
        with ChannelCall(raw, slot, 0, self) as call:
            return await call.reply()

    def call(self, raw: bytes, slot: int = 0, early: EarlyReply | None = None) -> ChannelCall:
        """A request that can be waited on beyond the loss of connections.

        Args:
            early: see ChannelCall.
        """
        return ChannelCall(raw, slot, 0, self, early)

    async def connects(self) -> bool:
        """Try once to make a connection, although nothing is to be sent. Returns whether there is one."""
        if self._connection is None and self._end is None:
            if self._connecting is None:
                self._connecting = self._loop.create_task(self._connect_once())
            await asyncio.shield(self._connecting)
        return self._connection is not None

    def close(self) -> None:
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
    def traffic(self) -> tuple[int, int]:
        """Bytes read and written, on all connections."""
        read_bytes, written_bytes = self._traffic
        if self._connection is None:
            return read_bytes, written_bytes
        return read_bytes + self._connection.read_bytes, written_bytes + self._connection.written_bytes

    def submit(self, call: ChannelCall) -> asyncio.Future[bytes]:
        """See CallOwner."""
        future = call.future = self._loop.create_future()
        connection = self._connection
        if not call.number:
            # Nothing waits in line then: the line is written as soon as there is room.
            if connection is not None and self._side.has_room:
                self._side.send(call)
                connection.pump()
                return future
            self._calls.queue(call)
        elif not self._side.is_sent(call):
            self._calls.tell_one(call, self._end.loss if self._end is not None else Loss.FORGOTTEN)
            return future
        if connection is None:
            self._connect()
        return future

    def abandon(self, call: ChannelCall) -> None:
        """See CallOwner."""
        if self._side.abandon(call) and self._connection is not None:
            self._connection.pump()

    def has_room(self) -> None:
        """See ConnectionOwner."""
        while self._connection is not None and self._side.has_room:
            call = self._calls.next_in_line()
            if call is None:
                return
            self._side.send(call)
            self._connection.pump()

    def lost(self, connection: ClientConnection) -> None:
        """See ConnectionOwner."""
        self._traffic = self.traffic
        self._connection = None
        if self._side.replies != self._replies_before:
            self._cuts = 0
        if self._calls.are_awaited:
            self._cut(DialError(Loss.CUT))
            self._connect()

    def _cut(self, error: DialError) -> None:
        self._cuts += 1
        if self._cuts >= MAX_CUTS:
            self._tell(error)

    def _connect(self) -> None:
        if self._end is not None:
            self._tell(self._end)
        elif self._connecting is None and self._calls.are_awaited:
            self._connecting = self._loop.create_task(self._make_connection())

    async def _connect_once(self) -> None:
        try:
            await self._dial()
        finally:
            self._connecting = None
            self._connect()

    async def _make_connection(self) -> None:
        try:
            while self._connection is None and self._calls.are_awaited:
                await self._dial()
        finally:
            self._connecting = None

    async def _dial(self) -> None:
        self._attempts += 1
        claim = Claim(VERSION, self._client, self._attempts, self.endpoint.boot)
        handshake = ClientHandshake(self._dialer.secret, claim, secrets.token_bytes(NONCE_BYTES))
        try:
            await self._dialer.dial(self.endpoint, handshake, self._take_over)
        except DialError as error:
            if self._connection is not None:
                # Made in the moment in which the time was over.
                return
            if error.loss in (Loss.OTHER_BOOT, Loss.OTHER_VERSION):
                self._retire(error)
            elif error.loss in (Loss.NOT_ADMITTED, Loss.CUT):
                self._cut(error)
            else:
                self._tell(error)

    def _take_over(self, transport: asyncio.Transport, welcome: Welcome) -> ClientConnection:
        for call in self._side.connected(welcome.memory):
            self._calls.tell_one(call, Loss.FORGOTTEN)
        connection = ClientConnection(transport, self.address, self._side, self, self._options)
        # Before anything is written: the transport tells its protocol when its buffer is full.
        transport.set_protocol(connection)
        if self._was_connected:
            self.reconnects += 1
        self._was_connected = True
        self._replies_before = self._side.replies
        self._connection = connection
        self.has_room()
        connection.pump()
        return connection

    def _tell(self, error: DialError) -> None:
        self._cuts = 0
        self._calls.tell(error.loss, error.details)
        if error.loss.is_final:
            self._side.abandon_all()

    def _retire(self, error: DialError) -> None:
        self._end = self._end or error
        self._tell(error)
        self._retired(self)


CLOSED = "this program has closed its connections"
"""Why there are no connections any more, where nothing else is known."""


@dataclass(frozen=True)
class ConnectionStatistics:
    """Figures of the connections that a process has made.

    Attributes:
        connections: that are open.
        reconnects: how often one was made again.
        read_bytes, written_bytes: on all of them, and on those before.
    """

    connections: int
    reconnects: int
    read_bytes: int
    written_bytes: int


class Channels:
    """One channel for each process that this one speaks to. It belongs to one event loop.

    Attributes:
        closed_because: why there will be no other channel; "" while there may be.

    Args:
        secret: of the deployment, at least 16 bytes.
        node: the name of this machine, see Endpoint.
        ssl: for TCP.
    """

    def __init__(self, secret: bytes, node: str, ssl: SSLContext | None = None, options: DirectOptions | None = None) -> None:
        self._options = options or DirectOptions()
        self._dialer = Dialer(secret, node, self._options.connect_s, ssl)
        self._channels: dict[bytes, Channel] = {}
        self._past = ConnectionStatistics(0, 0, 0, 0)
        self.closed_because = ""

    def to(self, endpoint: Endpoint) -> Channel:
        """The channel to a process. It connects when there is something to send."""
        channel = self._channels.get(endpoint.boot)
        if channel is None:
            channel = self._channels[endpoint.boot] = Channel(endpoint, self._dialer, self._options, self._retired)
        return channel

    async def close(self, reason: str = CLOSED) -> None:
        """Close all channels, for good, and for that reason."""
        self.closed_because = self.closed_because or reason
        for channel in list(self._channels.values()):
            channel.close()

    def statistics(self) -> ConnectionStatistics:
        """The figures now."""
        figures = self._past
        for channel in self._channels.values():
            figures = _sum(figures, channel)
        return figures

    def _retired(self, channel: Channel) -> None:
        if self._channels.get(channel.endpoint.boot) is channel:
            del self._channels[channel.endpoint.boot]
            past = _sum(self._past, channel)
            self._past = ConnectionStatistics(0, past.reconnects, past.read_bytes, past.written_bytes)


def _sum(figures: ConnectionStatistics, channel: Channel) -> ConnectionStatistics:
    read_bytes, written_bytes = channel.traffic
    return ConnectionStatistics(
        figures.connections + channel.is_connected,
        figures.reconnects + channel.reconnects,
        figures.read_bytes + read_bytes,
        figures.written_bytes + written_bytes,
    )
