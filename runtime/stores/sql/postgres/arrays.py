"""Columns of rows as arrays of PostgreSQL, and single texts, in the binary form of its protocol.

A statement takes any number of rows as one array for each column. psycopg makes arrays of lists, too, with a look at each value
for its type: several times the time of all the rest of a commit in the client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, Text
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from psycopg import Connection

_HEADER = struct.Struct("!iiiii").pack
_LENGTH = struct.Struct("!i").pack
_INT4 = struct.Struct("!ii").pack
_INT8 = struct.Struct("!iq").pack
_FLOAT8 = struct.Struct("!id").pack
_BOOLEAN = struct.Struct("!i?").pack
_NULL = _LENGTH(-1)


class Value:
    """A value as bytes, `data`. Its class says of which type it is."""

    __slots__ = ("data",)
    oid: int
    data: bytes


class OneText(Value):
    """A text."""

    __slots__ = ()
    oid = 25

    def __init__(self, text: str) -> None:
        self.data = text.encode()


class _Array(Value):
    """An array. Its class says of which type its values are."""

    __slots__ = ()
    element_oid: int

    def __init__(self, values: Sequence[Any]) -> None:
        count, first = len(values), values[0]
        has_nulls = False
        if count == 1 or values.count(first) == count:
            # The agent, the version and the state of all turns are often the same.
            has_nulls = first is None
            items = [_NULL if has_nulls else self._items((first,))[0]] * count
        elif None in values:
            has_nulls = True
            items = [_NULL if value is None else self._items((value,))[0] for value in values]
        else:
            items = self._items(values)
        self.data = _HEADER(1, has_nulls, self.element_oid, count, 1) + b"".join(items)

    @staticmethod
    def _items(values: Sequence[Any]) -> list[bytes]:
        """The values, each with its length before it."""
        raise NotImplementedError


class _Int4s(_Array):
    __slots__ = ()
    oid, element_oid = 1007, 23

    @staticmethod
    def _items(values: Sequence[int]) -> list[bytes]:
        return [_INT4(4, value) for value in values]


class _Int8s(_Array):
    __slots__ = ()
    oid, element_oid = 1016, 20

    @staticmethod
    def _items(values: Sequence[int]) -> list[bytes]:
        return [_INT8(8, value) for value in values]


class _Float8s(_Array):
    __slots__ = ()
    oid, element_oid = 1022, 701

    @staticmethod
    def _items(values: Sequence[float]) -> list[bytes]:
        return [_FLOAT8(8, value) for value in values]


class _Booleans(_Array):
    __slots__ = ()
    oid, element_oid = 1000, 16

    @staticmethod
    def _items(values: Sequence[bool]) -> list[bytes]:
        return [_BOOLEAN(1, value) for value in values]


class _Byteas(_Array):
    __slots__ = ()
    oid, element_oid = 1001, 17

    @staticmethod
    def _items(values: Sequence[bytes]) -> list[bytes]:
        return [_LENGTH(len(value)) + value for value in values]


class _Texts(_Array):
    __slots__ = ()
    oid, element_oid = 1009, 25

    @staticmethod
    def _items(values: Sequence[str]) -> list[bytes]:
        return [_LENGTH(len(raw)) + raw for raw in map(str.encode, values)]


_KINDS: Sequence[tuple[type[TypeEngine[Any]], type[_Array]]] = (
    (BigInteger, _Int8s),
    (Integer, _Int4s),
    (Double, _Float8s),
    (Boolean, _Booleans),
    (LargeBinary, _Byteas),
    (Text, _Texts),
)
"""The first that fits a column's type: a BigInteger is an Integer."""


@cache
def array_of(kind: TypeEngine[Any]) -> Callable[[Sequence[Any]], Value]:
    """A function that makes an array of a column's values, of which some may be None."""
    return next(array for known, array in _KINDS if isinstance(kind, known))


def register_arrays(connection: Connection[Any]) -> None:
    """Have a connection take such arrays and texts as parameters."""
    kinds: list[type[Value]] = [OneText, *(array for _, array in _KINDS)]
    for kind in kinds:
        connection.adapters.register_dumper(kind, _dumper(kind))


def _dumper(kind: type[Value]) -> type[Dumper]:
    class ValueDumper(Dumper):
        format = Format.BINARY
        oid = kind.oid

        def dump(self, obj: Value) -> bytes:
            return obj.data

    return ValueDumper
