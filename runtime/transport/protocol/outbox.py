"""Frames that one connection has yet to write."""

from __future__ import annotations

from collections import deque

from runtime.transport.protocol.frames import HEADER, MAX_PAYLOAD, Kind

GATHERED_BYTES = 64 * 1024
"""Bytes of short frames that one write takes."""

_PIECE = int(Kind.PIECE)

LONG_AT_ONCE = 4
"""At most this many long messages are interleaved, so a reader buffers no more."""


class FrameQueue:
    """Short frames in their order, and long messages in pieces between them.

    Short frames and pieces take turns, so neither can hold up the other for long.

    Attributes:
        short_bytes, long_bytes: of short frames and of long messages that wait here.
        short_frames: how many times short frames were put here.
        short_written_bytes: of short frames that were taken.
        written_bytes: of all that was taken.
    """

    def __init__(self) -> None:
        self._short: deque[bytes] = deque()
        self._long: deque[LongMessage] = deque()
        self._is_turn_of_long = False
        self.short_bytes = 0
        self.long_bytes = 0
        self.short_frames = 0
        self.short_written_bytes = 0
        self.written_bytes = 0

    @property
    def unwritten_bytes(self) -> int:
        """All that waits here."""
        return self.short_bytes + self.long_bytes

    def put_frames(self, whole: bytes) -> None:
        """Write a frame, or several that belong together."""
        self._short.append(whole)
        self.short_bytes += len(whole)
        self.short_frames += 1

    def put_long(self, kind: int, number: int, payload: bytes, slot: int = 0) -> LongMessage:
        """Write a message of more than `MAX_PAYLOAD` bytes, whose last frame is of this kind."""
        message = LongMessage(kind, number, payload, slot)
        self._long.append(message)
        self.long_bytes += len(payload)
        return message

    def take_frames(self) -> tuple[bytes | memoryview, ...]:
        """Bytes that are to be written next, in one or two parts; none when nothing waits."""
        if self._long and (self._is_turn_of_long or not self._short):
            self._is_turn_of_long = False
            return self._take_piece()
        self._is_turn_of_long = True
        return self._take_short() if self._short else ()

    def _take_short(self) -> tuple[bytes]:
        taken = self._short.popleft()
        if self._short and len(taken) < GATHERED_BYTES:
            frames, size = [taken], len(taken)
            while self._short and size < GATHERED_BYTES:
                frames.append(self._short.popleft())
                size += len(frames[-1])
            taken = b"".join(frames)
        size = len(taken)
        self.short_bytes -= size
        self.short_written_bytes += size
        self.written_bytes += size
        return (taken,)

    def _take_piece(self) -> tuple[bytes, memoryview]:
        message = self._long.popleft()
        head, piece = message.next_frame()
        self.long_bytes -= len(piece)
        self.written_bytes += len(head) + len(piece)
        if message.is_written:
            message.end = self.written_bytes
        else:
            self._long.insert(LONG_AT_ONCE - 1, message)
        return head, piece

    def drop_frames(self) -> None:
        """Forget all that waits here: the connection is gone."""
        self._short.clear()
        self._long.clear()
        self.short_bytes = self.long_bytes = 0


class LongMessage:
    """A message that is written in pieces.

    Attributes:
        end: how many bytes its connection had written with its last one; 0 until then.
    """

    def __init__(self, kind: int, number: int, payload: bytes, slot: int) -> None:
        self._kind = kind
        self._number = number
        self._slot = slot
        self._left = memoryview(payload)
        self.end = 0

    @property
    def is_written(self) -> bool:
        """True when all of it was taken."""
        return not self._left

    def next_frame(self) -> tuple[bytes, memoryview]:
        """The next frame: its header and its payload."""
        piece, self._left = self._left[:MAX_PAYLOAD], self._left[MAX_PAYLOAD:]
        kind = _PIECE if self._left else self._kind
        return HEADER.pack(len(piece), kind, self._number, self._slot), piece
