"""From the bytes of a connection to its frames."""

from __future__ import annotations

from runtime.transport.protocol.errors import ProtocolError
from runtime.transport.protocol.frames import HEADER, MAX_PAYLOAD, Kind
from runtime.transport.protocol.outbox import LONG_AT_ONCE

_HEADER_BYTES = HEADER.size
_read_header = HEADER.unpack_from
_PIECE = int(Kind.PIECE)
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
