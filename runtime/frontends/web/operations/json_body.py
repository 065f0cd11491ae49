"""Reads the body of a request, where JSON has only numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decoded(raw: bytes, expected: type[T]) -> T:
    """A body as a struct. `5.0` is an integer, as JSON Schema says; in a value of any kind it stays a float.

    Args:
        raw: the body.
        expected: the struct that it should be.

    Raises:
        msgspec.DecodeError: it is no JSON, or something else.
        UnicodeDecodeError, RecursionError: the same.
    """
    try:
        return msgspec.json.decode(raw, type=expected)
    except msgspec.ValidationError:
        # Reading that is not strict takes texts for numbers as well: only what is right with its numbers made whole may have it.
        msgspec.convert(_whole(msgspec.json.decode(raw)), expected)
        return msgspec.json.decode(raw, type=expected, strict=False)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
