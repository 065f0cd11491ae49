"""The frames on a connection, a header and bytes each: how they are written, queued and read.

Rules of this file:
1. A header is the length of the payload (u32), the kind (u8), the number of the request (u64) and the slot of its actor (u32),
   all big-endian. Only a REQUEST has a slot; it is 0 in other frames.
2. A payload has at most `MAX_PAYLOAD` bytes. A longer message travels as PIECE frames and a last frame of its own kind.
3. The payload of ACK and WANTED is numbers of requests (u64 each).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from actors.messages import codec

MAX_PAYLOAD = 256 * 1024
"""Bytes that a payload may have."""


class HandlerFailedError(Exception):
    """The handler of a request has raised an error.

    Attributes:
        kind: the name of the error's class.
        text: its message.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class ProtocolError(Exception):
    """The bytes from a peer are not of the protocol. Its connection has to be closed."""


class Kind(IntEnum):
    """What a frame is.

    PIECE: a part of a long message. BEAT: the peer lives; it may come at any time.
    From the client: WANTED comes first on each connection: the requests that wait for replies and are sent once more; number 0
    marks the last such frame. REQUEST. ACK: these replies are not needed any more. BYE: the client leaves and wants no replies.
    From the server: REPLY. FAILED: the handler raised an error. EARLY: a reply of a handler that goes on; it is not kept, nor
    acknowledged.
    """

    PIECE = 1
    REQUEST = 2
    REPLY = 3
    FAILED = 4
    ACK = 5
    WANTED = 6
    BYE = 7
    BEAT = 8
    EARLY = 9


HEADER = struct.Struct(">IBQI")
MAX_SLOT = 2**32 - 1
_NUMBER_BYTES = 8
_NUMBERS_A_FRAME = MAX_PAYLOAD // _NUMBER_BYTES


def frame(kind: Kind, number: int = 0, payload: bytes = b"", slot: int = 0) -> bytes:
    """A whole frame."""
    return HEADER.pack(len(payload), kind, number, slot) + payload


def ack_frames(numbers: list[int]) -> bytes:
    """The frames that acknowledge the replies to these requests."""
    return b"".join(frame(Kind.ACK, 0, part) for part in _number_payloads(numbers))


def wanted_frames(numbers: list[int]) -> bytes:
    """The frames that begin a connection: which requests wait for replies. There is at least one of them."""
    *others, last = _number_payloads(numbers) or [b""]
    return b"".join([*(frame(Kind.WANTED, 1, part) for part in others), frame(Kind.WANTED, 0, last)])


def _number_payloads(numbers: list[int]) -> list[bytes]:
    parts = (numbers[start : start + _NUMBERS_A_FRAME] for start in range(0, len(numbers), _NUMBERS_A_FRAME))
    return [struct.pack(f">{len(part)}Q", *part) for part in parts]


def read_numbers(payload: bytes) -> Iterable[int]:
    """The numbers in an ACK or WANTED. Raises ProtocolError."""
    if len(payload) % _NUMBER_BYTES:
        raise ProtocolError(f"a list of numbers has {len(payload)} bytes")
    return struct.unpack(f">{len(payload) // _NUMBER_BYTES}Q", payload)


def pack_failure(kind: str, text: str) -> bytes:
    """The payload of FAILED."""
    return msgspec.msgpack.encode((kind, text))


def read_failure(payload: bytes) -> HandlerFailedError:
    """The error in a FAILED. Raises ProtocolError."""
    try:
        return HandlerFailedError(*_failure.decode(payload))
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"no failure: {error}") from error


BEAT = frame(Kind.BEAT)
"""A heartbeat."""

_failure = codec.decoder(tuple[str, str])


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


_HEADER_BYTES = HEADER.size
_read_header = HEADER.unpack_from


_MAY_BE_LONG = (Kind.REQUEST, Kind.REPLY, Kind.FAILED)


class FrameReader:
    """Takes bytes as they come, and gives frames as they are asked for. Long messages come whole.

    Attributes:
        read_bytes: bytes that were taken.

    Args:
        max_message_bytes: the longest message; all that are read in part may have so many bytes together.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._data = b""
        self._size = 0
        self._start = 0
        self._later: list[bytes] = []
        self._later_bytes = 0
        self._pieces: dict[int, list[bytes]] = {}
        self._pieces_bytes = 0
        self.read_bytes = 0

    @property
    def has_pieces(self) -> bool:
        """True while a long message has been read in part."""
        return bool(self._pieces)

    def receive_data(self, data: bytes) -> None:
        """Take what was read."""
        self.read_bytes += len(data)
        if self._start == self._size and not self._later:
            self._data, self._size, self._start = data, len(data), 0
        else:
            self._later.append(data)
            self._later_bytes += len(data)

    def next_frame(self) -> tuple[int, int, int, bytes] | None:
        """The kind, number, slot and payload of the next frame; None until more is read. Raises ProtocolError."""
        while True:
            start = self._start
            begin = start + _HEADER_BYTES
            if self._size < begin:
                if self._later_bytes and self._gather(_HEADER_BYTES):
                    continue
                if self._size == start and not self._later:
                    self._data, self._size, self._start = b"", 0, 0
                return None
            data = self._data
            length, kind, number, slot = _read_header(data, start)
            end = begin + length
            if self._size < end or length > MAX_PAYLOAD:
                if length > MAX_PAYLOAD:
                    raise ProtocolError(f"a frame says that it has {length} bytes, and {MAX_PAYLOAD} are allowed")
                if self._gather(_HEADER_BYTES + length):
                    continue
                return None
            self._start = end
            if kind != _PIECE and not self._pieces:
                return kind, number, slot, data[begin:end]
            if kind == _PIECE:
                self._keep_piece(number, data[begin:end])
            else:
                payload = data[begin:end]
                return kind, number, slot, self._whole(number, payload) if kind in _MAY_BE_LONG else payload

    def _gather(self, size: int) -> bool:
        """Have so many bytes stand in one piece, if they are there."""
        if self._size - self._start + self._later_bytes < size:
            return False
        self._data = b"".join((self._data[self._start :], *self._later))
        self._size = len(self._data)
        self._start = self._later_bytes = 0
        self._later.clear()
        return True

    def _keep_piece(self, number: int, piece: bytes) -> None:
        pieces = self._pieces.setdefault(number, [])
        pieces.append(piece)
        self._pieces_bytes += len(piece)
        if not piece or len(self._pieces) > LONG_AT_ONCE:
            raise ProtocolError(f"it sends more than {LONG_AT_ONCE} long messages at once, or empty pieces of one")
        if self._pieces_bytes > self._max_message_bytes:
            raise ProtocolError(f"a message is longer than {self._max_message_bytes} bytes")

    def _whole(self, number: int, last: bytes) -> bytes:
        pieces = self._pieces.pop(number, None)
        if pieces is None:
            return last
        self._pieces_bytes -= sum(map(len, pieces))
        return b"".join((*pieces, last))
