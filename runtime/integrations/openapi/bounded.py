"""Bodies of HTTP answers, decompressed only as far as they are wanted: three megabytes may stand for gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

ACCEPTED = "gzip, deflate"
"""The encodings that are asked for."""

_NONE = ("", "identity")
_ANY_HEADER = zlib.MAX_WBITS | 32


async def beginning(sent: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """The body of an answer, or its first `most` bytes.

    Args:
        sent: the bytes as they come over the wire.
        encoding: the answer's Content-Encoding.
        most: how many bytes are wanted.

    Raises:
        ValueError: the body is not in the encoding that it names, or in none that was asked for.
    """
    encoding = encoding.strip().lower()
    if encoding not in (*_NONE, "gzip", "x-gzip", "deflate"):
        raise ValueError(f"the answer is encoded as {encoding!r}, and {ACCEPTED} were asked for")
    body = _Plain() if encoding in _NONE else _Inflated()
    data = bytearray()
    async for piece in sent:
        data += body.next(piece, most - len(data))
        if len(data) >= most:
            break
    return bytes(data)


class _Plain:
    def next(self, piece: bytes, most: int) -> bytes:
        return piece[:most]


class _Inflated:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ANY_HEADER)
        # What has come before the first byte was made of it.
        self._head: bytes | None = b""

    def next(self, piece: bytes, most: int) -> bytes:
        try:
            return self._inflated(piece, most)
        except zlib.error as error:
            raise ValueError(f"the answer cannot be decompressed: {error}") from error

    def _inflated(self, piece: bytes, most: int) -> bytes:
        if self._head is None:
            return self._stream.decompress(piece, most)
        self._head += piece
        try:
            made = self._stream.decompress(piece, most)
        except zlib.error:
            # Some servers leave out the header of deflate.
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            made = self._stream.decompress(self._head, most)
        if made:
            self._head = None
        return made
