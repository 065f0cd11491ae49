"""One proven connection: bytes to frames, and frames to bytes."""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import cast

from runtime.cluster.transport.direct.errors import ProtocolError
from runtime.cluster.transport.direct.wire.frames import HEADER, MAX_PAYLOAD, Kind
from runtime.cluster.transport.direct.wire.outbox import LONG_AT_ONCE, Outbox

logger = logging.getLogger(__name__)

_HEADER_BYTES = HEADER.size


class FrameConnection(asyncio.Protocol):
    """The protocol of both sides once they are proven. It takes over a transport that is connected.

    Attributes:
        outbox: what is to be written.
        read_bytes: bytes that have been read.
        is_closed: nothing is read or written any more.

    Args:
        address: the peer's, for the log.
        max_message_bytes: see DirectOptions.
    """

    def __init__(self, transport: asyncio.Transport, address: str, max_message_bytes: int) -> None:
        self._transport = transport
        self._address = address
        self._max_message_bytes = max_message_bytes
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._needed_bytes = _HEADER_BYTES
        self._is_held = False
        self._pieces: dict[int, list[bytes]] = {}
        self._pieces_bytes = 0
        self._linger: asyncio.TimerHandle | None = None
        self.outbox = Outbox(transport)
        self.read_bytes = 0
        self.is_closed = False

    def data_received(self, data: bytes) -> None:
        """Take what was read, and hand over each frame that is complete."""
        self.read_bytes += len(data)
        if self._unread_bytes:
            self._unread.append(data)
            self._unread_bytes += len(data)
            if self._unread_bytes >= self._needed_bytes and not self._is_held:
                self._read_unread()
        else:
            self._read(data)

    def _read_unread(self) -> None:
        data = b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        self._read(data)

    def _read(self, data: bytes) -> None:
        try:
            rest = self._read_frames(data)
        except (ProtocolError, struct.error) as error:
            self.fail(str(error))
            return
        self._unread_bytes = len(rest)
        if rest:
            self._unread.append(rest)

    def _read_frames(self, data: bytes) -> bytes:
        start, end = 0, len(data)
        while end - start >= _HEADER_BYTES and not self.is_closed and not self._is_held:
            length, kind, number = HEADER.unpack_from(data, start)
            if length > MAX_PAYLOAD:
                raise ProtocolError(f"a frame says that it has {length} bytes, and {MAX_PAYLOAD} are allowed")
            begin = start + _HEADER_BYTES
            stop = begin + length
            if stop > end:
                self._needed_bytes = stop - start
                return data[start:]
            if kind == Kind.PIECE:
                self._keep_piece(number, data[begin:stop])
            else:
                self.frame_received(kind, number, data, begin, stop)
            start = stop
        self._needed_bytes = _HEADER_BYTES
        return data[start:] if start < end else b""

    def _keep_piece(self, number: int, piece: bytes) -> None:
        pieces = self._pieces.setdefault(number, [])
        pieces.append(piece)
        self._pieces_bytes += len(piece)
        if not piece or len(self._pieces) > LONG_AT_ONCE:
            raise ProtocolError(f"it sends more than {LONG_AT_ONCE} long messages at once, or empty pieces of one")
        if self._pieces_bytes > self._max_message_bytes:
            raise ProtocolError(f"a message is longer than {self._max_message_bytes} bytes")

    def whole(self, number: int, last: bytes) -> bytes:
        """A message with the pieces that came before its last one."""
        if number not in self._pieces:
            return last
        pieces = self._pieces.pop(number)
        self._pieces_bytes -= sum(map(len, pieces))
        return b"".join((*pieces, last))

    @property
    def has_pieces(self) -> bool:
        """True while a long message has been read in part."""
        return bool(self._pieces)

    def frame_received(self, kind: int, number: int, data: bytes, start: int, stop: int) -> None:
        """Take a frame, whose payload is `data[start:stop]`. Raises ProtocolError."""
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

    def close_written(self, last: bytes, timeout_s: float) -> None:
        """End the connection when the transport has written what it has taken, and this frame.

        Args:
            timeout_s: how long that may take.
        """
        self.outbox.put(last)
        self.outbox.flush()
        self._transport.close()
        self._linger = asyncio.get_running_loop().call_later(timeout_s, self._transport.abort)
        self._close()

    @property
    def is_held(self) -> bool:
        """True while the peer has to wait."""
        return self._is_held

    def hold(self) -> None:
        """Take no more frames, and read nothing more, so that the peer has to wait."""
        if not self.is_closed:
            self._is_held = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Take frames again, first those that had been read when the peer was held."""
        self._is_held = False
        if not self.is_closed and self._unread_bytes:
            self._read_unread()
        if not self.is_closed and not self._is_held:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Called by the transport when its buffer is full."""
        self.outbox.pause()

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        if not self.is_closed:
            self.outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport when the connection is gone."""
        if self._linger is not None:
            self._linger.cancel()
        self._close()

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._unread.clear()
            self._pieces.clear()
            self.outbox.drop()
            self.connection_closed()


def as_transport(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """A stream's transport; asyncio declares its base class only."""
    return cast(asyncio.Transport, transport)
