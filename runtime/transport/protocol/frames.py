"""The frames on a connection: a header, and bytes.

Rules of this file:
1. A header is the length of the payload (u32), the kind (u8), the number of the request (u64) and the slot of its actor (u32),
   all big-endian. Only a REQUEST has a slot; it is 0 in other frames.
2. A payload has at most `MAX_PAYLOAD` bytes. A longer message travels as PIECE frames and a last frame of its own kind.
3. The payload of ACK and WANTED is numbers of requests (u64 each).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from actors.messages import typed
from runtime.transport.protocol.errors import HandlerFailedError, ProtocolError

MAX_PAYLOAD = 256 * 1024
"""Bytes that a payload may have."""


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

_failure = typed.decoder(tuple[str, str])
