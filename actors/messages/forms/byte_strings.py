"""A list of byte strings that takes little more memory than its bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate

import msgspec


class ByteStrings(msgspec.Struct, frozen=True, dict=True, array_like=True):
    """Byte strings one after the other. Python takes 41 bytes more for each that stands alone in a list, and this takes 8.

    Attributes:
        joined: all of them.
        ends: where each ends, as numbers of eight bytes in the order of this machine.
    """

    joined: bytes
    ends: bytes

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> ByteStrings:
        """Put byte strings together."""
        listed = list(strings)
        return cls(b"".join(listed), numbers(accumulate(map(len, listed))))

    @cached_property
    def _ends(self) -> memoryview[int]:
        return as_numbers(self.ends)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        """One of them by its number, from 0."""
        if not 0 <= number < len(self._ends):
            raise IndexError(number)
        return self.joined[self._ends[number - 1] if number else 0 : self._ends[number]]

    def __iter__(self) -> Iterator[bytes]:
        begin = 0
        for end in self._ends:
            yield self.joined[begin:end]
            begin = end

    def __reversed__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self) - 1, -1, -1))


def numbers(values: Iterable[int]) -> bytes:
    """Numbers from 0 below 2 ** 64, eight bytes each, for `as_numbers`."""
    return array("Q", values).tobytes()


def as_numbers(raw: bytes) -> memoryview[int]:
    """A view of what `numbers` has made."""
    return memoryview(raw).cast("Q")
