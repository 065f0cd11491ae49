"""One proven connection: carries the bytes of one side of the protocol."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, cast

from runtime.transport.io.writer import Writer
from runtime.transport.protocol.errors import ProtocolError
from runtime.transport.protocol.outbox import FrameQueue

logger = logging.getLogger(__name__)


class Side(Protocol):
    """What both sides of the protocol have. Each new connection of a side has an outbox of its own."""

    outbox: FrameQueue

    def receive_data(self, data: bytes) -> None:
        """Take what was read."""
        ...


class Connection(asyncio.Protocol):
    """Takes over a transport that is connected and proven, after its side has begun the connection.

    Attributes:
        read_bytes: bytes that have been read.
        is_closed: nothing is read or written any more.
        pump: writes what the side has put into its outbox.

    Args:
        address: the peer's, for the log.
        frames_at_once: see Writer.
    """

    def __init__(self, transport: asyncio.Transport, address: str, side: Side, frames_at_once: int | None = None) -> None:
        self._transport = transport
        self._address = address
        self._side = side
        self._outbox = side.outbox
        self._writer = Writer(transport, side.outbox, frames_at_once)
        self.pump = self._writer.pump
        self._linger: asyncio.TimerHandle | None = None
        self.read_bytes = 0
        self.is_closed = False

    @property
    def written_bytes(self) -> int:
        """Bytes that the transport has taken."""
        return self._outbox.written_bytes

    def data_received(self, data: bytes) -> None:
        """Take what was read, and do what it says."""
        if not self.is_closed:
            self.read_bytes += len(data)
            self._side.receive_data(data)
            self.take_events()

    def take_events(self) -> None:
        """Do what the peer says, as far as it was read."""
        try:
            self.handle_events()
        except ProtocolError as error:
            self.fail(str(error))

    def handle_events(self) -> None:
        """Ask the side for its events. Raises ProtocolError."""
        raise NotImplementedError

    def connection_closed(self) -> None:
        """Called once, when the connection is gone, whatever ended it."""
        raise NotImplementedError

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer does."""
        if not self.is_closed:
            logger.warning("closing the connection with %s: %s", self._address, reason)
            self.abort()

    def abort(self) -> None:
        """End the connection at once; what is unwritten is not written."""
        self._transport.abort()
        self._close()

    def close_written(self, timeout_s: float) -> None:
        """End the connection when the transport has written what it has taken, and what it takes now.

        Args:
            timeout_s: how long that may take.
        """
        self._writer.flush()
        self._transport.close()
        self._linger = asyncio.get_running_loop().call_later(timeout_s, self._transport.abort)
        self._close()

    def pause_writing(self) -> None:
        """Called by the transport when its buffer is full."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        if not self.is_closed:
            self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport when the connection is gone."""
        if self._linger is not None:
            self._linger.cancel()
        self._close()

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._outbox.drop_frames()
            self.connection_closed()


def as_transport(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """A stream's transport; asyncio declares its base class only."""
    return cast(asyncio.Transport, transport)
