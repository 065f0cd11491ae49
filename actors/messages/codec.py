"""How values are encoded and read: msgspec's MessagePack and JSON, one tagged struct per message, never a pickle.

Types are read by one thread at a time. When msgspec needs a struct class for the first time, it notes the fields with the class
before it has worked all of them out. A thread that needs the class at that moment reads fields that are not there yet: the value
is wrong, or the process dies. A decoder that is made may be used by any thread.

`from_plain` reads the form in which other programs send values: dictionaries with camelCase or snake_case keys, and base64.
msgspec alone would leave out a field that is misspelt, and knows only one alphabet of base64.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import types
from collections.abc import Mapping, Sequence
from functools import cache
from threading import RLock
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, overload

import msgspec

from actors.errors import InvalidMessageError, NotEncodableError
from actors.errors.hints import did_you_mean
from actors.errors.user_code import error_text, is_interrupt
from actors.messages.json_types import JsonValue

T = TypeVar("T")

_classes = RLock()
# A thread of the parent that has it is not in the child, and would have left a class half worked out.
os.register_at_fork(before=_classes.acquire, after_in_parent=_classes.release, after_in_child=_classes.release)


@overload
def decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...
@overload
def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...
def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Decodes MessagePack of a type. Raises TypeError for a type that msgspec does not know."""
    with _classes:
        return msgspec.msgpack.Decoder(kind)


@overload
def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Decodes JSON of a type. Raises TypeError as `decoder`."""
    with _classes:
        return msgspec.json.Decoder(kind)


def decode(raw: bytes, kind: type[T]) -> T:
    """A value in MessagePack. Raises msgspec.ValidationError, which names the field, when `raw` holds no such value."""
    with _classes:
        return msgspec.msgpack.decode(raw, type=kind)


def decode_json(text: str | bytes, kind: type[T], *, strict: bool = True) -> T:
    """A value in JSON. `strict`: as in `convert`. Raises msgspec.DecodeError; msgspec.ValidationError, which names the field."""
    with _classes:
        return msgspec.json.decode(text, type=kind, strict=strict)


def convert(value: object, kind: type[T], *, strict: bool = True) -> T:
    """A value made of plain data. Raises msgspec.ValidationError, which names the field.

    Args:
        strict: take no texts for numbers.
    """
    with _classes:
        return msgspec.convert(value, kind, strict=strict)


MAX_DEPTH = 100
"""Levels of nesting in a JSON value. Deeper values can be written, but not every parser can read them."""

TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
"""What is said of such a value, also where Python itself goes no deeper: each version has other limits, and other words."""

_encoder = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """The MessagePack form of a message, an event or plain data.

    Raises:
        NotEncodableError: something in it has no wire form, for instance a file handle or an integer beyond 64 bits.
    """
    try:
        return _encoder.encode(value)
    except RecursionError as error:
        raise NotEncodableError(type(value).__name__, TOO_DEEP) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise NotEncodableError(type(value).__name__, str(error)) from error


def plain(value: object) -> JsonValue:
    """A value in the form in which its receiver gets it; see `plain_sized`."""
    return plain_sized(value)[0]


def plain_sized(value: object) -> tuple[JsonValue, int]:
    """A value in the form in which its receiver gets it, and the bytes that it takes.

    The form is dictionaries with text keys, lists, texts, numbers, booleans, None and bytes. Pydantic models and dataclasses
    become dictionaries, tuples and sets become lists.

    Raises:
        NotEncodableError: something in it has no wire form.
    """
    try:
        builtins = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, enc_hook=_plain_hook)
        # Encoding makes lists of tuples, and finds the integers that are too long.
        raw = encode(builtins)
        return msgspec.msgpack.decode(raw), len(raw)
    except NotEncodableError:
        raise
    except RecursionError as error:
        raise NotEncodableError(type(value).__name__, TOO_DEEP) from error
    except BaseException as error:
        # The value may be of a user's own class, whose fields may raise anything; nothing is awaited, so it is no cancellation.
        if is_interrupt(error):
            raise
        raise NotEncodableError(type(value).__name__, error_text(error)) from error


def _plain_hook(value: object) -> JsonValue:
    # By its method, so that this module needs no pydantic.
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__name__} have no wire form")
    return dump(mode="json")


def flaw(value: JsonValue, *, is_finite: bool = False) -> str | None:
    """Why a value must be refused although MessagePack can encode it; None when it is fine.

    Args:
        value: a list or an object.
        is_finite: refuse NaN and infinity too, which MessagePack can encode but JSON cannot.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        inside: list[JsonValue] = []
        for each in level:
            values = each.values() if isinstance(each, dict) else each
            if is_finite and any(isinstance(one, float) and not math.isfinite(one) for one in values):
                return "NaN and infinity are no JSON values: use None or a text instead"
            inside += [one for one in values if isinstance(one, (dict, list, tuple))]
        if not inside:
            return None
        level = inside
    return TOO_DEEP


S = TypeVar("S", bound=msgspec.Struct)

_URL_SAFE = str.maketrans("-_", "+/")


class _Field(NamedTuple):
    """A field of a struct: its name in JSON, the struct that it holds, if any, and whether it holds several, or bytes."""

    key: str
    kind: type[msgspec.Struct] | None
    is_list: bool
    is_bytes: bool


def from_plain(kind: type[S], value: JsonValue, where: str) -> S:
    """A struct made of a dictionary. Fields that are None are left out; what is a struct already is taken as it is.

    Args:
        where: what the value is, for errors.

    Raises:
        InvalidMessageError: a field is unknown or wrong; the message names it.
    """
    try:
        return convert(_checked(kind, value, where), kind)
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
