"""Statements that take any number of rows, with one SQL for both databases.

Rules of this file:

- In the SQL of a statement `given` is a table of the rows. SQLite runs it once for each row, PostgreSQL once for all of them:
  there each column is an array.
- Arrays are made here, in the binary form of PostgreSQL's protocol. psycopg makes arrays of lists, too, with a look at each value
  for its type: that takes several times the time of all the rest of a commit in the client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Table, Text
from sqlalchemy.types import TypeEngine

Values = tuple[Any, ...]
"""Values of a row in the order of its columns."""

V = TypeVar("V")

MAX_VALUES = 500
"""Values in one list of a statement."""


def pages(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """Values in batches that fit into one list of a statement."""
    return (values[first : first + MAX_VALUES] for first in range(0, len(values), MAX_VALUES))


class RowsStatement:
    """A statement that takes rows.

    Args:
        columns: those of which the rows have values, in this order.
        sql: begins as any statement does; `given` has the columns by their names.

    Attributes:
        sqlite: the SQL for one row, its values as parameters.
        postgres: the SQL for many rows; its parameters are what `arrays` returns.
    """

    def __init__(self, columns: Iterable[Column[Any]], sql: str) -> None:
        columns = tuple(columns)
        self._kinds = [_kind(column.type) for column in columns]
        given, places = f"given ({_names(columns)})", ", ".join("?" * len(columns))
        arrays = ", ".join(f"%s::{kind.sql}[]" for kind in self._kinds)
        self.sqlite = f"WITH {given} AS (VALUES ({places})) {sql}"
        self.postgres = f"WITH {given} AS (SELECT * FROM unnest({arrays})) {sql}"

    def arrays(self, rows: Sequence[Values]) -> list[Array]:
        """The columns of some rows."""
        return [Array(kind, column) for kind, column in zip(self._kinds, zip(*rows, strict=True), strict=True)]


def insert(table: Table, columns: Iterable[Column[Any]] = ()) -> RowsStatement:
    """Insert rows of a table, by default with values of all columns."""
    columns = tuple(columns) or tuple(table.columns)
    return RowsStatement(columns, _insert(table, columns))


def insert_new(table: Table) -> RowsStatement:
    """Insert rows; those that are there stay as they are."""
    return RowsStatement(table.columns, f"{_insert(table, table.columns)} WHERE true ON CONFLICT DO NOTHING")


def upsert(table: Table, *, but: str = "") -> RowsStatement:
    """Insert rows, or replace those that are there; columns whose `info` has `but` keep their values."""
    changing = [column.name for column in table.columns if not column.primary_key and not column.info.get(but)]
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in changing)
    on_conflict = f"ON CONFLICT ({_names(table.primary_key.columns)}) DO UPDATE SET {changes}"
    return RowsStatement(table.columns, f"{_insert(table, table.columns)} WHERE true {on_conflict}")


def delete(table: Table) -> RowsStatement:
    """Delete rows by their keys."""
    key = tuple(table.primary_key.columns)
    return RowsStatement(key, f"DELETE FROM {table.name} WHERE ({_names(key)}) IN (SELECT {_names(key)} FROM given)")


def _insert(table: Table, columns: Iterable[Column[Any]]) -> str:
    names = _names(columns)
    # Before ON CONFLICT the SELECT needs a condition: SQLite could not tell it from the ON of a join.
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM given"


def _names(columns: Iterable[Column[Any]]) -> str:
    return ", ".join(f'"{column.name}"' for column in columns)


class _Kind(NamedTuple):
    """The type of a column in PostgreSQL. `items`: values in binary form, each with its length before it."""

    sql: str
    oid: int
    items: Callable[[Sequence[Any]], list[bytes]]


_HEADER = struct.Struct("!iiiii").pack
_LENGTH = struct.Struct("!i").pack
_NULL = _LENGTH(-1)


def _numbers(form: str) -> Callable[[Sequence[Any]], list[bytes]]:
    size, pack = struct.calcsize(f"!{form}"), struct.Struct(f"!i{form}").pack
    return lambda values: [pack(size, value) for value in values]


def _blobs(values: Sequence[bytes]) -> list[bytes]:
    return [_LENGTH(len(value)) + value for value in values]


def _texts(values: Sequence[str]) -> list[bytes]:
    return _blobs([value.encode() for value in values])


_KINDS: Sequence[tuple[type[TypeEngine[Any]], _Kind]] = (
    (BigInteger, _Kind("bigint", 20, _numbers("q"))),
    (Integer, _Kind("integer", 23, _numbers("i"))),
    (Double, _Kind("double precision", 701, _numbers("d"))),
    (Boolean, _Kind("boolean", 16, _numbers("?"))),
    (LargeBinary, _Kind("bytea", 17, _blobs)),
    (Text, _Kind("text", 25, _texts)),
)
"""The first that fits a column's type: a BigInteger is an Integer."""


def _kind(of: TypeEngine[Any]) -> _Kind:
    return next(kind for known, kind in _KINDS if isinstance(of, known))


class Array:
    """The values of a column as an array in binary form, of which some may be None."""

    __slots__ = ("data",)

    def __init__(self, kind: _Kind, values: Sequence[Any]) -> None:
        count, first = len(values), values[0]
        has_nulls = False
        if values.count(first) == count:
            # The agent, the version and the state of all turns are often the same.
            has_nulls = first is None
            items = [_NULL if has_nulls else kind.items((first,))[0]] * count
        elif None in values:
            has_nulls = True
            items = [_NULL if value is None else kind.items((value,))[0] for value in values]
        else:
            items = kind.items(values)
        self.data = _HEADER(1, has_nulls, kind.oid, count, 1) + b"".join(items)


def register_arrays(connection: Any) -> None:
    """Have a connection of psycopg take arrays as parameters. The SQL says of which type each is."""
    # psycopg is an extra.
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class ArrayDumper(Dumper):
        format = Format.BINARY
        oid = 0

        def dump(self, obj: Array) -> bytes:
            return obj.data

    connection.adapters.register_dumper(Array, ArrayDumper)
