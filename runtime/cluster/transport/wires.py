"""How one process of a deployment reaches the others, and is reached by them.

Ray decides which processes there are, and says where each of them listens. Messages then go over direct connections; where none
can be made they go over Ray.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import ray

from actors.interfaces.transport import Link
from actors.messages.protocol.statistics import ConnectionFigures
from runtime.cluster.transport.pair import Pair, PairPeer
from runtime.cluster.transport.peer import Peer
from runtime.cluster.transport.ray_actors import Handle, this_node
from runtime.cluster.transport.tls import ray_tls
from runtime.private_files import temporary_folder
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ConnectionLostError, Loss
from runtime.transport.io.channel import CLOSED, Channels
from runtime.transport.io.server import Server, ServerStatistics
from runtime.transport.io.server_connection import Handler
from runtime.transport.options import DirectOptions

_log = logging.getLogger(__name__)


WATCHED = 1
"""The slot of an actor's process to which its standby sends one message: it has no reply while the process lives."""

Transport = Literal["direct", "ray"]
"""How messages travel."""


@dataclass(frozen=True)
class WireOptions:
    """What all processes of a deployment have to know to reach each other.

    Attributes:
        secret: by which they know each other. It travels over Ray only.
        ports: on which they listen for other nodes, see `port_range`.
    """

    transport: Transport
    secret: bytes = field(repr=False)
    ports: str = ""


class Wires:
    """Makes the links of one process to actors in others. They belong to one event loop.

    Create it in a process that is connected to Ray. It raises ClusterError when Ray's certificates cannot be used.

    Args:
        direct: for the connections that this process makes; None: the default ones.
    """

    def __init__(self, options: WireOptions, direct: DirectOptions | None = None) -> None:
        self.options = options
        self._peers: WeakSet[Peer] = WeakSet()
        self._connections: Channels | None = None
        if options.transport == "direct":
            tls = ray_tls()
            self._connections = Channels(options.secret, this_node(), tls.client if tls is not None else None, direct)

    def link(self, handle: Handle, name: str, restart_timeout_s: float = 0.0) -> Link:
        """A link to the only actor in a process: see ActorLink."""
        return self.peer(handle, name).link(name, restart_timeout_s)

    def pair_link(self, pair: Pair, name: str, restart_timeout_s: float) -> Link:
        """A link to the actor that has a standby: see ActorLink."""
        peer = PairPeer(pair, name, self._connections)
        self._peers.add(peer)
        return peer.link(name, restart_timeout_s)

    async def watch(self, endpoint: Endpoint) -> bool:
        """Wait until the process that listens there is lost, or cannot be reached. Returns True when it is certainly lost.

        Args:
            endpoint: of a process that answers nothing to a message for the slot WATCHED.
        """
        assert self._connections is not None
        with self._connections.to(endpoint).call(b"", WATCHED) as call:
            try:
                await call.reply()
            except ConnectionLostError as error:
                return error.loss in (Loss.REFUSED, Loss.OTHER_BOOT)
        return False

    def peer(self, handle: Handle, name: str) -> Peer:
        """One process, which makes links to the actors in it.

        Args:
            name: the process's, for statistics.
        """
        peer = Peer(handle, name, self._connections)
        self._peers.add(peer)
        return peer

    def figures(self, accepted: ServerStatistics | None = None) -> ConnectionFigures:
        """The figures of messages to and from this process.

        Args:
            accepted: of its Listener, if it listens.
        """
        if self._connections is None:
            return ConnectionFigures(transport=self.options.transport)
        made = self._connections.statistics()
        return ConnectionFigures(
            transport=self.options.transport,
            made=made.connections,
            accepted=accepted.connections if accepted is not None else 0,
            reconnects=made.reconnects,
            read_bytes=made.read_bytes + (accepted.read_bytes if accepted is not None else 0),
            written_bytes=made.written_bytes + (accepted.written_bytes if accepted is not None else 0),
            unreached=[peer.unreached for peer in self._peers if peer.unreached is not None],
        )

    async def close(self, reason: str = CLOSED) -> None:
        """End all connections. Messages that wait, and later ones, are not delivered, for that reason."""
        if self._connections is not None:
            await self._connections.close(reason)


class Listener:
    """Has the process of an actor listen, as soon as a sender asks where.

    Args:
        handler: takes messages, each with the slot of its actor, and replies.
    """

    def __init__(self, options: WireOptions, handler: Handler) -> None:
        self._options = options
        self._handler = handler
        self._server: Server | None = None
        self._starting: asyncio.Task[Endpoint] | None = None

    async def endpoint(self) -> Endpoint | None:
        """Where it listens; None where messages come over Ray. Raises ClusterError when it cannot."""
        if self._options.transport == "ray":
            return None
        if self._starting is None:
            host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
            tls = ray_tls()
            self._server = Server(
                self._handler,
                self._options.secret,
                this_node(),
                _folder(),
                host,
                self._options.ports,
                tls.server if tls is not None else None,
            )
            self._starting = asyncio.create_task(self._server.start())
        return await asyncio.shield(self._starting)

    def statistics(self) -> ServerStatistics | None:
        """The figures now; None before it listens."""
        return self._server.statistics() if self._server is not None else None

    async def close(self) -> None:
        """Listen no more. A process that ends, or is killed, need not do it."""
        if self._server is not None:
            await self._server.close()


def _folder() -> Path | None:
    """Where Unix sockets are; None where there can be none, and processes of this node come over TCP as all others do."""
    try:
        return temporary_folder()
    except OSError as error:
        _log.warning("no folder for Unix sockets can be made, and messages of this node's processes go over TCP: %s", error)
        return None
