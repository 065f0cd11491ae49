"""Values from the plain form in which other programs send them: dictionaries with camelCase or snake_case keys, and base64.

msgspec alone would leave out a field that is misspelt, and knows only one alphabet of base64.
"""

from __future__ import annotations

import base64
import binascii
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from actors.errors import InvalidMessageError
from actors.errors.hints import did_you_mean
from actors.messages import typed
from actors.messages.json_types import JsonValue

T = TypeVar("T", bound=msgspec.Struct)

_URL_SAFE = str.maketrans("-_", "+/")


class _Field(NamedTuple):
    """A field of a struct: its name in JSON, the struct that it holds, if any, and whether it holds several, or bytes."""

    key: str
    kind: type[msgspec.Struct] | None
    is_list: bool
    is_bytes: bool


def from_plain(kind: type[T], value: JsonValue, where: str) -> T:
    """A struct made of a dictionary. Fields that are None are left out; what is a struct already is taken as it is.

    Args:
        where: what the value is, for errors.

    Raises:
        InvalidMessageError: a field is unknown or wrong; the message names it.
    """
    try:
        return typed.convert(_checked(kind, value, where), kind)
    except msgspec.ValidationError as error:
        raise InvalidMessageError(_sentence(str(error), where)) from None
    except RecursionError:
        raise InvalidMessageError(f"{where} is nested too deep") from None


def _checked(kind: type[msgspec.Struct], value: JsonValue, where: str) -> JsonValue:
    """The fields of a struct under their names in JSON; the struct itself, where there is one already."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InvalidMessageError(f"{where} has to be an object with the fields {_listed(kind)}, not {_kind_of(value)}")
    fields = _fields(kind)
    found: dict[str, JsonValue] = {}
    for name, each in value.items():
        field = fields.get(name) if isinstance(name, str) else None
        if field is None:
            if each is None:
                # Of a newer google-genai, which writes the fields that it does not use as well.
                continue
            hint = did_you_mean(str(name), {each.key for each in fields.values()})
            raise InvalidMessageError(f"{where} has no field {name!r}.{hint} Its fields are {_listed(kind)}")
        if field.key in found:
            raise InvalidMessageError(f"{where} has the field {field.key!r} twice, also as {name!r}")
        if each is not None:
            found[field.key] = _value(field, each, f"{where}.{field.key}")
    return found


def _value(field: _Field, value: JsonValue, where: str) -> JsonValue:
    if field.is_bytes:
        return _bytes(value, where)
    if field.kind is None:
        return value
    if not field.is_list:
        return _checked(field.kind, value, where)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidMessageError(f"{where} has to be a list, not {_kind_of(value)}")
    return [_checked(field.kind, each, f"{where}[{index}]") for index, each in enumerate(value)]


def _bytes(value: JsonValue, where: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise InvalidMessageError(f"{where} has to be bytes, or a text in base64, not {_kind_of(value)}")
    text = value.translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidMessageError(f"{where} is no base64: {error}") from None


@cache
def _fields(kind: type[msgspec.Struct]) -> Mapping[str, _Field]:
    """The fields of a struct, by their names in JSON and in Python."""
    found: dict[str, _Field] = {}
    for field in msgspec.structs.fields(kind):
        held = [each for each in _alternatives(field.type) if each is not type(None)]
        inner = held[0] if len(held) == 1 else None
        is_list = get_origin(inner) is Sequence
        item = get_args(inner)[0] if is_list else inner
        is_struct = isinstance(item, type) and issubclass(item, msgspec.Struct)
        made = _Field(field.encode_name, item if is_struct else None, is_list, inner is bytes)
        found[field.encode_name] = found[field.name] = made
    return found


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _listed(kind: type[msgspec.Struct]) -> str:
    return ", ".join(dict.fromkeys(field.key for field in _fields(kind).values()))


def _kind_of(value: object) -> str:
    return f"{value!r:.40}" if isinstance(value, str | int | float | bool) else f"a {type(value).__name__}"


def _sentence(problem: str, where: str) -> str:
    """Tell what msgspec found wrong, beginning with the field."""
    reason, _, path = problem.partition(" - at `$")
    return f"{where}{path.removesuffix('`')}: {reason}"
