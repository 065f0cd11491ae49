"""A process that listens for requests."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

from runtime.transport.endpoint import Endpoint, new_boot
from runtime.transport.io.connection import Connection
from runtime.transport.io.listening import BACKLOG, keep_alive, listen_tcp, listen_unix, more_handles, remove_stale, socket_name
from runtime.transport.io.proving import UnprovenConnection
from runtime.transport.io.server_connection import Handler, ServedClient, ServerConnection
from runtime.transport.options import DirectOptions
from runtime.transport.protocol.handshake import VERSION, Claim, HandshakeReply, Welcome
from runtime.transport.protocol.server import ServerSide, judge

logger = logging.getLogger(__name__)

ACCEPTED_AT_ONCE = 8
"""New connections that one pass of the event loop takes on each socket."""

LOG_EVERY_S = 60.0
"""At most once in this time the log tells of peers at one address that could not prove themselves."""

LOGGED_ADDRESSES = 1024
"""Addresses of which it is known when the log told of them."""


@dataclass(frozen=True)
class ServerStatistics:
    """Figures of a server.

    Attributes:
        connections: that are open and proven.
        unproven: that have yet to prove themselves.
        clients: whose requests or replies are kept.
        running: requests whose handlers are at work.
        kept_bytes: of replies that clients have not acknowledged.
        read_bytes, written_bytes: on all proven connections, and on those before.
    """

    connections: int
    unproven: int
    clients: int
    running: int
    kept_bytes: int
    read_bytes: int
    written_bytes: int


class Server:
    """Listens on a Unix socket, on a TCP socket, or on both, and hands requests to a handler.

    The handler gets the requests of one client in the order in which they were sent. A request of more than `MAX_PAYLOAD` bytes
    takes its place in that order when the last of it has arrived.

    Args:
        handler: takes a request and its slot and returns the reply. What it raises, the client gets as HandlerFailedError.
        secret: of the deployment, at least 16 bytes.
        node: the name of this machine, see Endpoint.
        folder: of the Unix socket, see `listen_unix`; None: no Unix socket.
        host: the address of the TCP socket; "": no TCP socket.
        ports: see `port_range`.
        ssl: for TCP.
    """

    def __init__(
        self,
        handler: Handler,
        secret: bytes,
        node: str,
        folder: Path | None = None,
        host: str = "",
        ports: str = "",
        ssl: SSLContext | None = None,
        options: DirectOptions | None = None,
    ) -> None:
        self._handler = handler
        self._secret = secret
        self._node = node
        self._folder = folder
        self._host = host
        self._ports = ports
        self._ssl = ssl
        self._options = options or DirectOptions()
        self._boot = new_boot()
        self._is_closed = False
        self._servers: list[asyncio.AbstractServer] = []
        self._path: Path | None = None
        self._unproven: dict[UnprovenConnection, None] = {}
        self._connections: set[ServerConnection] = set()
        self._clients: dict[bytes, ServedClient] = {}
        self._departed: set[ServedClient] = set()
        self._last_memory = 0
        self._past_traffic = (0, 0)
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self._logged: OrderedDict[str, float] = OrderedDict()

    async def start(self) -> Endpoint:
        """Begin to listen. Returns where. Raises ClusterError when it cannot."""
        loop = asyncio.get_running_loop()
        port = 0
        try:
            if self._folder is not None:
                self._path = self._folder / socket_name(self._boot)
                listening = listen_unix(self._folder, self._path.name)
                remove_stale(self._path)
                for each in (listening, *more_handles(listening, ACCEPTED_AT_ONCE)):
                    server = await loop.create_unix_server(self._unproven_connection, sock=each, backlog=BACKLOG)
                    self._servers.append(server)
            if self._host:
                listener = listen_tcp(self._host, self._ports)
                port = listener.getsockname()[1]
                for each in (listener, *more_handles(listener, ACCEPTED_AT_ONCE)):
                    server = await loop.create_server(self._unproven_connection, sock=each, ssl=self._ssl, backlog=BACKLOG)
                    self._servers.append(server)
        except BaseException:
            await self.close()
            raise
        return Endpoint(self._node, str(self._path or ""), self._host, port, self._boot)

    async def close(self) -> None:
        """Listen no more and end all connections. Handlers that are at work go on, and their replies are dropped."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        for unproven in list(self._unproven):
            unproven.abort()
        for connection in list(self._connections):
            connection.abort()
        for client in list(self._clients):
            self._forget(client)
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def statistics(self) -> ServerStatistics:
        """The figures now."""
        sides = [client.side for client in self._clients.values()]
        read_bytes, written_bytes = self._past_traffic
        return ServerStatistics(
            connections=len(self._connections),
            unproven=len(self._unproven),
            clients=len(sides),
            running=sum(side.running for side in sides),
            kept_bytes=sum(side.kept_bytes for side in sides),
            read_bytes=read_bytes + sum(each.read_bytes for each in self._connections),
            written_bytes=written_bytes + sum(each.written_bytes for each in self._connections),
        )

    def _unproven_connection(self) -> UnprovenConnection:
        return UnprovenConnection(self, self._secret, self._options.connect_s)

    def arrived(self, connection: UnprovenConnection) -> None:
        """See Gate."""
        self._unproven[connection] = None
        if self._is_closed:
            connection.abort()
        elif len(self._unproven) > self._options.max_unproven:
            # The oldest: a client that has the secret proves itself at once.
            next(iter(self._unproven)).abort()

    def left(self, connection: UnprovenConnection) -> None:
        """See Gate."""
        self._unproven.pop(connection, None)

    def refused(self, connection: UnprovenConnection, reason: str) -> None:
        """See Gate."""
        now_s = asyncio.get_running_loop().time()
        address = connection.address
        logged_s = self._logged.get(address)
        if logged_s is not None and now_s - logged_s < LOG_EVERY_S:
            return
        self._logged[address] = now_s
        self._logged.move_to_end(address)
        if len(self._logged) > LOGGED_ADDRESSES:
            self._logged.popitem(last=False)
        logger.warning("refused a connection from %s: %s", address, reason)

    def judge(self, claim: Claim) -> Welcome:
        """See Gate."""
        client = self._clients.get(claim.client)
        admission = judge(claim, self._boot, client.side if client is not None else None)
        if admission == HandshakeReply.OTHER_VERSION:
            logger.warning(
                "a client speaks version %d of direct connections, and this process version %d", claim.version, VERSION
            )
        if admission == HandshakeReply.ADMITTED and client is None:
            self._last_memory += 1
            side = ServerSide(self._last_memory, self._options)
            client = self._clients[claim.client] = ServedClient(self._handler, side, self._departed)
        return Welcome(admission, memory=client.side.memory if client is not None else 0)

    def admit(self, claim: Claim, transport: asyncio.Transport, address: str) -> Connection:
        """See Gate."""
        client = self._clients[claim.client]
        if client.connection is not None:
            client.connection.abort()
        if (timer := self._timers.pop(claim.client, None)) is not None:
            timer.cancel()
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None and found.family != socket.AF_UNIX:
            keep_alive(found)

        def ended(connection: ServerConnection, has_left: bool) -> None:
            self._ended(claim.client, connection, has_left)

        client.side.connected(claim.attempt)
        connection = client.connection = ServerConnection(transport, address, client, self._options, ended)
        self._connections.add(connection)
        return connection

    def _ended(self, client: bytes, connection: ServerConnection, has_left: bool) -> None:
        self._connections.discard(connection)
        read_bytes, written_bytes = self._past_traffic
        self._past_traffic = read_bytes + connection.read_bytes, written_bytes + connection.written_bytes
        if has_left:
            self._forget(client)
        elif connection.client.connection is connection:
            connection.client.connection = None
            connection.client.side.disconnected()
            loop = asyncio.get_running_loop()
            self._timers[client] = loop.call_later(self._options.grace_s, self._forget, client)

    def _forget(self, client: bytes) -> None:
        if (timer := self._timers.pop(client, None)) is not None:
            timer.cancel()
        if (forgotten := self._clients.pop(client, None)) is not None:
            forgotten.connection = None
            forgotten.forget_client()
