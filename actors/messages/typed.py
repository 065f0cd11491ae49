"""Reading values of types with msgspec, by one thread at a time.

When msgspec needs a struct class for the first time, it notes the fields with the class before it has worked all of them out. A
thread that needs the class at that moment reads fields that are not there yet: the value is wrong, or the process dies. A
decoder that is made may be used by any thread.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

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
