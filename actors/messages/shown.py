"""How values are shown to people: in one line, without what is at its default, and with long texts cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import ClassVar

import msgspec

MAX_TEXT = 80
"""Characters of one text."""

MAX_ITEMS = 240
"""Characters of the items of one list or dictionary; at least one is shown."""

MAX_DEPTH = 5
"""Levels of lists and dictionaries."""


class Shown:
    """Mixin of structs that are shown by the fields that differ from their defaults.

    Attributes:
        unshown: fields that are never shown: those that only actors use.
    """

    __slots__ = ()
    unshown: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        return call_text(type(self).__name__, _changed(self))


class Text(str):
    """A text that is shown as it is, for instance the name of a function."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def call_text(name: str, fields: Iterable[tuple[str, object]]) -> str:
    """A value as the call that would make it."""
    return f"{name}({', '.join(f'{field}={shown(value)}' for field, value in fields)})"


def shown(value: object, depth: int = 0) -> str:
    """One value, cut to a length for people."""
    if isinstance(value, Text):
        return value
    if isinstance(value, str):
        return repr(value) if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]!r}… ({len(value):,} characters)"
    if isinstance(value, bytes | bytearray):
        return repr(value) if len(value) <= MAX_TEXT // 4 else f"<{len(value):,} bytes>"
    if isinstance(value, Mapping | Sequence | Set) and depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return _items("{", (f"{shown(key)}: {shown(each, depth + 1)}" for key, each in value.items()), "}", len(value))
    if isinstance(value, list | tuple | set | frozenset):
        brackets = ("(", ")") if isinstance(value, tuple) else ("[", "]") if isinstance(value, list) else ("{", "}")
        return _items(brackets[0], (shown(each, depth + 1) for each in value), brackets[1], len(value))
    text = repr(value)
    return text if len(text) <= 10 * MAX_ITEMS else f"{text[:MAX_ITEMS]}…"


def _items(begin: str, items: Iterable[str], end: str, count: int) -> str:
    taken: list[str] = []
    room = MAX_ITEMS
    for item in items:
        if taken and len(item) > room:
            return f"{begin}{', '.join(taken)}, … {count - len(taken):,} more{end}"
        taken.append(item)
        room -= len(item)
    comma = "," if begin == "(" and count == 1 else ""
    return f"{begin}{', '.join(taken)}{comma}{end}"


def _changed(value: Shown) -> list[tuple[str, object]]:
    return [
        (field.name, each)
        for field in _fields(type(value))  # type: ignore[arg-type]
        if field.name not in value.unshown and not _is_default(field, each := getattr(value, field.name))
    ]


@lru_cache(maxsize=1024)
def _fields(kind: type[object]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct. msgspec evaluates the annotations of all of them each time, which takes a millisecond."""
    return msgspec.structs.fields(kind)  # type: ignore[arg-type]


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return isinstance(value, Collection) and not value
    return value is field.default or (type(value) is type(field.default) and value == field.default)
