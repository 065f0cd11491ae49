"""Columns of rows as arrays of PostgreSQL, in the binary form of its protocol.

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


class _Array:
    """An array as bytes. Its class says of which type its values are."""

    __slots__ = ("data",)
    oid: int
    element_oid: int

    def __init__(self, values: Sequence[Any]) -> None:
        count = len(values)
        if count > 1 and values.count(values[0]) == count:
            # The agent, the version and the state of all turns are often the same.
            items = [_NULL if values[0] is None else self._item(values[0])] * count
        else:
            items = [_NULL if value is None else self._item(value) for value in values]
        self.data = b"".join((_HEADER(1, _NULL in items, self.element_oid, count, 1), *items))

    @staticmethod
    def _item(value: Any) -> bytes:
        """A value with its length before it."""
        raise NotImplementedError


class _Int4s(_Array):
    __slots__ = ()
    oid, element_oid = 1007, 23

    @staticmethod
    def _item(value: int) -> bytes:
        return _INT4(4, value)


class _Int8s(_Array):
    __slots__ = ()
    oid, element_oid = 1016, 20

    @staticmethod
    def _item(value: int) -> bytes:
        return _INT8(8, value)


class _Float8s(_Array):
    __slots__ = ()
    oid, element_oid = 1022, 701

    @staticmethod
    def _item(value: float) -> bytes:
        return _FLOAT8(8, value)


class _Booleans(_Array):
    __slots__ = ()
    oid, element_oid = 1000, 16

    @staticmethod
    def _item(value: bool) -> bytes:
        return _BOOLEAN(1, value)


class _Byteas(_Array):
    __slots__ = ()
    oid, element_oid = 1001, 17

    @staticmethod
    def _item(value: bytes) -> bytes:
        return _LENGTH(len(value)) + value


class _Texts(_Array):
    __slots__ = ()
    oid, element_oid = 1009, 25

    @staticmethod
    def _item(value: str) -> bytes:
        raw = value.encode()
        return _LENGTH(len(raw)) + raw


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
def array_of(kind: TypeEngine[Any]) -> Callable[[Sequence[Any]], object]:
    """A function that makes an array of a column's values, of which some may be None."""
    return next(array for known, array in _KINDS if isinstance(kind, known))


def register_arrays(connection: Connection[Any]) -> None:
    """Have a connection take such arrays as parameters."""
    for _, array in _KINDS:
        connection.adapters.register_dumper(array, _dumper(array))


def _dumper(array: type[_Array]) -> type[Dumper]:
    class ArrayDumper(Dumper):
        format = Format.BINARY
        oid = array.oid

        def dump(self, obj: _Array) -> bytes:
            return obj.data

    return ArrayDumper
