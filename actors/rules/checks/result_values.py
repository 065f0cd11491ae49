"""The form in which a tool's result is stored: JSON's values, whatever the tool has returned.

The tool has run, so a value that JSON does not know is no reason for an error: the model would call the tool again. It becomes
what one would write in its place: a path its text, a range a list, NaN null.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages.codec import MAX_DEPTH, flaw, plain, plain_sized
from actors.messages.json_types import JsonValue

MOST_ITEMS = 10_000
"""So many items of an iterator are taken: it may have no end."""

_LONG = 2**63

Note = Callable[[str], None]
"""Takes what is not as the tool has given it."""


def fast_form(value: object) -> tuple[JsonValue, int] | None:
    """The stored form of a value that JSON knows, and its bytes; None for any other.

    Only classes of Python, dataclasses and pydantic's models are looked into.
    """
    try:
        data, size = plain_sized(value)
    except NotEncodableError:
        return None
    return (data, size) if flaw(data if isinstance(data, dict | list) else [data], is_finite=True) is None else None


def any_form(value: object, note: Note) -> tuple[JsonValue, int]:
    """The stored form of any value, and its bytes. It calls code of the value's class, and an iterator is used up.

    Args:
        note: called for what was lost: values that have become a text or null, and what was left out.
    """
    return plain_sized(_form(value, note, 0))


def _form(value: object, note: Note, depth: int) -> JsonValue:
    try:
        return _by_kind(value, note, depth)
    except BaseException as error:
        # The value may be of a user's own class, which may raise anything.
        if is_interrupt(error):
            raise
        note(f"a {type(value).__name__} was left out: {error_text(error)}")
        return None


def _by_kind(value: Any, note: Note, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _form(value.value, note, depth)
    if isinstance(value, str):
        # Half of a surrogate pair has no form in UTF-8; both halves are one character.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int):
        return int(value) if -_LONG <= value < 2 * _LONG else _digits(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        note(f"{value} has become null")
        return None
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {error_text(value)}"
    if hasattr(type(value), "__fspath__"):
        return _form(value.__fspath__(), note, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if depth >= MAX_DEPTH - 10:
        note("what is nested deeper than 90 levels has become a text")
        return _text(value, note)
    if isinstance(value, Mapping):
        return {_key(key, note): _form(each, note, depth + 1) for key, each in value.items()}
    if (inside := _inside(value)) is not value:
        return _form(inside, note, depth + 1)
    if isinstance(value, Iterable):
        return [_form(each, note, depth + 1) for each in _items(value, note)]
    try:
        # What msgspec knows: dates, decimals, UUIDs.
        return plain(value)
    except NotEncodableError:
        note(f"a {type(value).__name__} has become a text")
        return _text(value, note)


def _inside(value: Any) -> object:
    """The same value without its class: the fields of an object, the items of an array; itself if there is no such form."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name in ("_asdict", "to_dict", "tolist"):
        if callable(convert := getattr(type(value), name, None)):
            return convert(value)
    return value


def _items(value: Iterable[object], note: Note) -> Iterator[object]:
    if not isinstance(value, Iterator):
        yield from value
        return
    yield from islice(value, MOST_ITEMS)
    if next(value, None) is not None:
        note(f"of a {type(value).__name__} the first {MOST_ITEMS:,} items were taken")


def _key(key: object, note: Note) -> str:
    named = key.value if isinstance(key, Enum) else key
    return _text(named, note)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Python writes no decimals of so many digits.
        return hex(value)


def _text(value: object, note: Note) -> str:
    return str(_form(str(value), note, 0))
