"""A store as JSON lines, and back: each row is one line, and comes back byte for byte.

The first line names the format and the versions of the tables:

    {"raygrove": "store", "format": 1, "versions": {"sessions": 2, "memory": 2}}

Then there is one line for each row, by tables in the order of `tables.TABLES`:

    {"table": "events", "row": {"sid": 1, "seq": 1, "id": "…", …, "raw": {"id": "…", "author": "user", "content": {…}}}}

The last line has the number of rows of each table, so that a file that was cut off is noticed:

    {"end": {"sessions": 1, "events": 2}}

A column of bytes is shown as the JSON of what is encoded in it, where exactly these bytes can be made of that JSON again; else
it has the name `<column>:base64`. An empty column is null.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from actors.errors import SchemaVersionError, StoreError
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.schedule import SchedulePlan
from actors.messages import codec
from actors.messages.event import Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.protocol.log import PackedCall
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import MemoryEntry
from runtime.stores.transfer.tables import TABLES, VERSIONS, Row

FORMAT = 1
"""The version of the format."""

BASE64 = ":base64"
"""The end of the name of a column whose bytes are no JSON."""

_BYTES = {"undo", "raw", "outcome", "temp", "value", "digest"}

_STRUCTS: dict[tuple[str, str], Any] = {
    ("events", "raw"): Event,
    ("turns", "outcome"): AnyOutcome,
    ("model_calls", "raw"): PackedCall,
    ("memory", "raw"): MemoryEntry,
    ("schedules", "raw"): SchedulePlan,
    ("batches", "raw"): BatchInfo,
    ("batch_items", "raw"): BatchItem,
}
"""What is encoded in the columns that have no plain values."""


class _Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    raygrove: str = ""
    format: int = 0
    versions: dict[str, int] = {}
    table: str = ""
    row: JsonObject = {}
    end: dict[str, int] | None = None


_decoder = codec.json_decoder(_Line)


def write_lines(file: BinaryIO, rows: Iterable[tuple[str, Row]]) -> Counter[str]:
    """Write a store as JSON lines. Returns how many rows of each table."""
    counts: Counter[str] = Counter()
    _write(file, {"raygrove": "store", "format": FORMAT, "versions": dict(VERSIONS)})
    for table, row in rows:
        _write(file, {"table": table, "row": dict(_shown(table, name, value) for name, value in row.items())})
        counts[table] += 1
    _write(file, {"end": dict(counts)})
    return counts


def read_lines(file: BinaryIO, name: str) -> Iterator[tuple[str, Row]]:
    """Read JSON lines.

    Args:
        name: of the file, for errors.

    Raises:
        SchemaVersionError: a newer version of raygrove has written the file.
        StoreError: the file is none of this format, or was cut off.
    """
    counts: Counter[str] = Counter()
    end: dict[str, int] | None = None
    for number, raw in enumerate(file, 1):
        try:
            line = _decoder.decode(raw)
            if number == 1:
                _check_head(line)
                continue
            if end is not None:
                raise ValueError("it is behind the end")
            end = line.end
            if end is None:
                row = _row(line.table, line.row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise StoreError(f"line {number} of {name!r} cannot be read: {error}") from error
        if end is None:
            counts[line.table] += 1
            yield line.table, row
    if end is None:
        raise StoreError(f"{name!r} was cut off: it has no last line with the numbers of rows")
    if end != dict(counts):
        raise StoreError(f"{name!r} is not whole: it has {dict(counts)}, and its last line says {end}")


def _write(file: BinaryIO, line: JsonObject) -> None:
    file.write(msgspec.json.encode(line))
    file.write(b"\n")


def _check_head(line: _Line) -> None:
    if line.raygrove != "store":
        raise ValueError("a store begins with a line that says what it is")
    if line.format > FORMAT:
        raise SchemaVersionError(line.format, FORMAT, "later than this one")
    for store, version in line.versions.items():
        if version > VERSIONS.get(store, 0):
            raise SchemaVersionError(version, VERSIONS.get(store, 0), "later than this one")
        if version < VERSIONS[store]:
            raise ValueError(f"its {store} are of schema version {version}: import it with the release that wrote it")


def _shown(table: str, name: str, value: object) -> tuple[str, JsonValue]:
    if not isinstance(value, bytes | memoryview):
        return name, value
    raw = bytes(value)
    try:
        shown = msgspec.msgpack.decode(raw)
        if shown is not None and _encoded(table, name, shown) == raw:
            return name, shown
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        # It is no MessagePack, or has a value that JSON has not.
        pass
    return name + BASE64, b64encode(raw).decode()


def _encoded(table: str, name: str, shown: JsonValue) -> bytes:
    """The bytes of a column that is shown so. Structs are encoded as such, since their maps have headers of another form."""
    read: object = codec.decode_json(msgspec.json.encode(shown), _STRUCTS.get((table, name), object))
    return msgspec.msgpack.encode(read)


def _row(table: str, shown: JsonObject) -> Row:
    columns = TABLES.get(table)
    if columns is None:
        raise ValueError(f"there is no table {table!r}")
    row: Row = {}
    for name, value in shown.items():
        if name.endswith(BASE64):
            row[name.removesuffix(BASE64)] = b64decode(str(value), validate=True)
        else:
            row[name] = _encoded(table, name, value) if name in _BYTES and value is not None else value
    if row.keys() != set(columns):
        raise ValueError(f"a row of {table!r} has the columns {', '.join(columns)}")
    return row
