"""What one connection has yet to write."""

from __future__ import annotations

import asyncio
from collections import deque

from runtime.cluster.transport.direct.wire.frames import HEADER, MAX_PAYLOAD, Kind, frame

HIGH_WATER = 256 * 1024
"""Bytes in the transport's own buffer from which on frames wait here."""

GATHERED_BYTES = 64 * 1024
"""Bytes of short frames that one write takes."""

LONE_PASSES = 16
"""After so many passes of the event loop with one short frame each, a frame is written at once."""

LONG_AT_ONCE = 4
"""Long messages whose pieces take turns. Further ones wait for the first of these, so a reader has to keep so many at most."""


class Outbox:
    """Writes frames, the short ones in their order, and long messages in pieces between them.

    Short frames and pieces take turns, so neither can hold up the other for long.

    Short frames of one pass of the event loop gather, and are written together: each write wakes the peer, which on a busy
    machine takes the CPU from this process at once. Where frames come one by one, as those of a single session do, none waits.

    Attributes:
        short_bytes, long_bytes: of short frames and of long messages that wait here.
        written_bytes: what the transport has taken.
    """

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._is_paused = False
        self._frames_of_pass = 0
        self._lone_passes = LONE_PASSES
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
        if not self._frames_of_pass:
            self._loop.call_soon(self._end_pass)
        self._frames_of_pass += 1
        if self._frames_of_pass > 1 or self._lone_passes < LONE_PASSES or self._is_paused or self._short:
            self._short.append(whole)
            self.short_bytes += len(whole)
            if self.short_bytes >= GATHERED_BYTES:
                self.flush()
        else:
            self.written_bytes += len(whole)
            self._transport.write(whole)

    def _end_pass(self) -> None:
        self._lone_passes = self._lone_passes + 1 if self._frames_of_pass == 1 else 0
        self._frames_of_pass = 0
        self.flush()

    def put_long(self, kind: Kind, number: int, prefix: bytes, payload: bytes) -> None:
        """Write a message of more than `MAX_PAYLOAD` bytes.

        Args:
            kind: of the last frame.
            prefix: begins the last frame's payload.
        """
        self._long.append(_LongMessage(kind, number, prefix, payload))
        self.long_bytes += len(payload)
        self.flush()

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._is_paused = True

    def resume(self) -> None:
        """The transport's buffer is empty enough."""
        self._is_paused = False
        self.flush()

    def drop(self) -> None:
        """Forget what waits here: the connection is gone."""
        self._short.clear()
        self._long.clear()
        self.short_bytes = self.long_bytes = 0

    def flush(self) -> None:
        """Write what waits here, as far as the transport has room."""
        while not self._is_paused and (self._short or self._long):
            if self._long and (self._is_turn_of_long or not self._short):
                self._is_turn_of_long = False
                self._write_piece()
            else:
                self._is_turn_of_long = True
                self._write_short()

    def _write_short(self) -> None:
        while self._short and not self._is_paused:
            frames, size = [], 0
            while self._short and size < GATHERED_BYTES:
                frames.append(self._short.popleft())
                size += len(frames[-1])
            self.short_bytes -= size
            self.written_bytes += size
            self._transport.write(b"".join(frames))

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
