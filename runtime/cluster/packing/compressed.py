"""A list of byte strings, compressed in blocks: the definitions of a large tree say nearly the same of each agent."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from actors.messages.topology import ByteStrings

BLOCK_BYTES = 32 * 1024
"""Bytes of strings that are compressed together. To get one of them takes 0.1 ms. One that is larger is not compressed."""


@dataclass(frozen=True)
class CompressedStrings:
    """Byte strings by number, from 0; `CompressedStrings.of` makes them.

    Attributes:
        blocks: the strings one after the other, compressed in blocks.
        begins: where each block begins in what is compressed.
        ends: where each string ends in it.
    """

    blocks: ByteStrings
    begins: array[int]
    ends: array[int]

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> CompressedStrings:
        """Compress byte strings."""
        blocks: list[bytes] = []
        begins, ends = array("Q"), array("Q")
        block, length, end = list[bytes](), 0, 0
        for string in strings:
            if length and length + len(string) > BLOCK_BYTES:
                blocks.append(_compressed(block))
                begins.append(end - length)
                block, length = [], 0
            block.append(string)
            length += len(string)
            end += len(string)
            ends.append(end)
        if length:
            blocks.append(_compressed(block))
            begins.append(end - length)
        return cls(ByteStrings.of(blocks), begins, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> bytes:
        """One of them. Raises IndexError."""
        begin, end = self.ends[number - 1] if number else 0, self.ends[number]
        if begin == end:
            return b""
        block = bisect_right(self.begins, begin) - 1
        raw = zlib.decompress(self.blocks[block])
        return raw[begin - self.begins[block] : end - self.begins[block]]


def _compressed(strings: Iterable[bytes]) -> bytes:
    raw = b"".join(strings)
    # A large one stays as it is, for it would take long each time.
    return zlib.compress(raw, level=0 if len(raw) > BLOCK_BYTES else 1)
