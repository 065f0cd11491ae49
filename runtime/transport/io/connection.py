"""One proven connection: carries the bytes of one side of the protocol, and decides when to write them."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Protocol, cast

from runtime.transport.protocol.frames import GATHERED_BYTES, FrameQueue, ProtocolError

logger = logging.getLogger(__name__)


HIGH_WATER = 256 * 1024
"""Bytes in the transport's own buffer from which on frames wait in the outbox."""

LONE_PASSES = 16
"""After so many passes of the event loop with one short frame each, a frame is written at once."""


class Writer:
    """Writes what an outbox holds.

    Short frames of one pass of the event loop gather, and are written together: each write wakes the peer, which on a busy
    machine takes the CPU from this process at once. Where frames come one by one, as those of a single session do, none waits.

    Args:
        frames_at_once: so many frames are written although the pass goes on, and the peer works on them meanwhile; None: however
            many there are, they wait for its end.
    """

    def __init__(self, transport: asyncio.WriteTransport, outbox: FrameQueue, frames_at_once: int | None = None) -> None:
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._outbox = outbox
        self._loop = asyncio.get_running_loop()
        # asyncio's own transports, of Python 3.12 to 3.13.1, take any number of bytes by `writelines` and do not say that they
        # are full. Those before joined the parts themselves.
        self._pauses_writelines = not isinstance(self._loop, asyncio.BaseEventLoop)
        self._is_paused = False
        self._is_gathering = False
        self._frames_before = self._frames_written = outbox.short_frames
        self._frames_at_once = frames_at_once or sys.maxsize
        self._lone_passes = LONE_PASSES

    def pump(self) -> None:
        """Called when something was put into the outbox."""
        outbox = self._outbox
        short_bytes, long_bytes = outbox.short_bytes, outbox.long_bytes
        if not short_bytes and not long_bytes:
            return
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._end_pass)
            if self._lone_passes >= LONE_PASSES:
                self.flush()
                return
        if long_bytes or short_bytes >= GATHERED_BYTES or outbox.short_frames - self._frames_written >= self._frames_at_once:
            self.flush()

    def _end_pass(self) -> None:
        outbox = self._outbox
        frames = outbox.short_frames
        self._lone_passes = self._lone_passes + 1 if frames == self._frames_before + 1 else 0
        self._frames_before = frames
        self._is_gathering = False
        if outbox.short_bytes or outbox.long_bytes:
            self.flush()

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._is_paused = True

    def resume(self) -> None:
        """The transport's buffer is empty enough."""
        self._is_paused = False
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as the transport has room."""
        outbox = self._outbox
        while (outbox.short_bytes or outbox.long_bytes) and not self._is_paused:
            parts = outbox.take_frames()
            if len(parts) == 1:
                self._transport.write(parts[0])
            elif self._pauses_writelines:
                self._transport.writelines(parts)
            else:
                self._transport.write(b"".join(parts))
        self._frames_written = outbox.short_frames


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
