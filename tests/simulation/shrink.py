"""Making a scenario that fails small: parts are left out, and values become usual ones, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

TRIES = 200
"""Scenarios that are played at most."""

replace: Callable[..., Any] = msgspec.structs.replace


def shrunk(given: T, fails: Callable[[T], bool]) -> T:
    """The smallest scenario found that still fails. Most of what is tried is none: `fails` returns False for it."""
    smallest = given
    candidates = smaller(smallest)
    for _ in range(TRIES):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if fails(candidate):
            smallest = candidate
            candidates = smaller(smallest)
    return smallest


def smaller(given: Any) -> Iterator[Any]:
    """Values that are a little smaller, the largest steps first."""
    yield from _smaller(given)
    if (rounded := _rounded(given)) != given:
        yield rounded


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, msgspec.Struct):
        yield from _parts_of_its_class(value)
        # What goes wrong comes last in a scenario, and is left out first.
        names = [*reversed(value.__struct_fields__)]
        for name in names:
            yield from (replace(value, **{name: each}) for each in _shorter(value, name))
        for name in names:
            yield from (replace(value, **{name: each}) for each in _smaller(getattr(value, name)))
    elif _is_sequence(value):
        for place, item in enumerate(value):
            yield from ([*value[:place], each, *value[place + 1 :]] for each in _smaller(item))
    elif isinstance(value, Mapping):
        yield from ({name: each for name, each in value.items() if name != gone} for gone in value)


def _parts_of_its_class(value: msgspec.Struct) -> Iterator[Any]:
    """A part in the place of the whole, such as an agent in the place of the one above it."""
    for name in value.__struct_fields__:
        of = getattr(value, name)
        yield from (each for each in (of if _is_sequence(of) else ()) if type(each) is type(value))


def _shorter(struct: msgspec.Struct, name: str) -> Iterator[Any]:
    """The usual value of a field, or the field with fewer items."""
    value = getattr(struct, name)
    if _is_sequence(value):
        yield from _with_less(value)
        return
    [usual] = (field.default for field in msgspec.structs.fields(struct) if field.name == name)
    if usual is not msgspec.NODEFAULT and usual != value:
        yield usual


def _with_less(items: Sequence[Any]) -> Iterator[list[Any]]:
    size = len(items)
    while size:
        yield from ([*items[:first], *items[first + size :]] for first in range(0, len(items), size))
        size //= 2


def _is_sequence(value: Any) -> bool:
    """True for what may have fewer items: a tuple of plain values is one value."""
    return isinstance(value, list) or (isinstance(value, tuple) and not any(isinstance(each, str | float) for each in value))


def _rounded(value: Any) -> Any:
    """The same with short numbers."""
    if isinstance(value, float):
        return float(f"{value:.2g}")
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value))
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _rounded(getattr(value, name)) for name in value.__struct_fields__})
    return value
