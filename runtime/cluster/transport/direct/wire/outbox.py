"""What one connection has yet to write."""

from __future__ import annotations

from asyncio import WriteTransport
from collections import deque

from runtime.cluster.transport.direct.wire.frames import HEADER, MAX_PAYLOAD, Kind, frame

HIGH_WATER = 256 * 1024
"""Bytes in the transport's own buffer from which on frames wait here."""

LONG_AT_ONCE = 4
"""Long messages whose pieces take turns. Further ones wait for the first of these, so a reader has to keep so many at most."""


class Outbox:
    """Writes frames, the short ones in their order, and long messages in pieces between them.

    Short frames and pieces take turns, so neither can hold up the other for long.

    Attributes:
        short_bytes, long_bytes: of short frames and of long messages that wait here.
        written_bytes: what the transport has taken.
    """

    def __init__(self, transport: WriteTransport) -> None:
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._is_paused = False
        self._short: deque[bytes] = deque()
        self._long: deque[_LongMessage] = deque()
        self._is_turn_of_long = False
        self.short_bytes = 0
        self.long_bytes = 0
        self.written_bytes = 0

    @property
    def unwritten_bytes(self) -> int:
        """All that waits here."""
        return self.short_bytes + self.long_bytes

    def put(self, whole: bytes) -> None:
        """Write a frame, or several that belong together."""
        if self._is_paused or self._short:
            self._short.append(whole)
            self.short_bytes += len(whole)
        else:
            self.written_bytes += len(whole)
            self._transport.write(whole)

    def put_long(self, kind: Kind, number: int, prefix: bytes, payload: bytes) -> None:
        """Write a message of more than `MAX_PAYLOAD` bytes.

        Args:
            kind: of the last frame.
            prefix: begins the last frame's payload.
        """
        self._long.append(_LongMessage(kind, number, prefix, payload))
        self.long_bytes += len(payload)
        self._write()

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._is_paused = True

    def resume(self) -> None:
        """The transport's buffer is empty enough."""
        self._is_paused = False
        self._write()

    def _write(self) -> None:
        while not self._is_paused and (self._short or self._long):
            if self._long and (self._is_turn_of_long or not self._short):
                self._is_turn_of_long = False
                self._write_piece()
            else:
                self._is_turn_of_long = True
                while self._short and not self._is_paused:
                    whole = self._short.popleft()
                    self.short_bytes -= len(whole)
                    self.written_bytes += len(whole)
                    self._transport.write(whole)

    def _write_piece(self) -> None:
        message = self._long.popleft()
        head, piece = message.next_frame()
        if not message.is_written:
            self._long.insert(LONG_AT_ONCE - 1, message)
        self.long_bytes -= len(piece)
        self.written_bytes += len(head) + len(piece)
        self._transport.writelines((head, piece))


class _LongMessage:
    def __init__(self, kind: Kind, number: int, prefix: bytes, payload: bytes) -> None:
        self._kind = kind
        self._number = number
        self._prefix = prefix
        self._left = memoryview(payload)

    @property
    def is_written(self) -> bool:
        return not self._left

    def next_frame(self) -> tuple[bytes, memoryview]:
        """The next frame in two parts."""
        room = MAX_PAYLOAD - len(self._prefix)
        if len(self._left) > room:
            piece, self._left = self._left[:room], self._left[room:]
            return HEADER.pack(room, Kind.PIECE, self._number), piece
        piece, self._left = self._left, self._left[:0]
        return HEADER.pack(len(self._prefix) + len(piece), self._kind, self._number) + self._prefix, piece


BEAT = frame(Kind.BEAT, 0)
"""A heartbeat."""
