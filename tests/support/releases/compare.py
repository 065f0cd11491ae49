"""Which attributes of an object that another release has pickled are not there. Older releases run this file, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pydantic

OWN = ("actors", "runtime", "raygrove", "tests")


def missing(older: Any, newer: Any, where: str, seen: set[int] | None = None) -> Iterator[str]:
    """The attributes that an object of this release has, and one that an older release has pickled lacks, by their paths."""
    seen = set() if seen is None else seen
    if id(newer) in seen:
        return
    seen.add(id(newer))
    if isinstance(newer, Mapping):
        pairs = [(f"{where}[{key!r}]", older[key], newer[key]) for key in newer if key in older]
    elif isinstance(newer, list | tuple) and not _is_named(newer):
        pairs = [(f"{where}[{at}]", *both) for at, both in enumerate(zip(older, newer, strict=False))]
    elif type(newer).__module__.partition(".")[0] in OWN and not isinstance(newer, type):
        if type(older) is not type(newer):
            yield f"{where} is a {type(newer).__name__}, and was a {type(older).__name__}"
            return
        names = attributes(newer)
        yield from (f"{where}.{name}" for name in names if not hasattr(older, name))
        pairs = [(f"{where}.{name}", getattr(older, name), getattr(newer, name)) for name in names if hasattr(older, name)]
    else:
        return
    for inner, before, now in pairs:
        yield from missing(before, now, inner, seen)


def attributes(found: Any) -> list[str]:
    """The names of what an object of ours consists of."""
    if isinstance(found, msgspec.Struct):
        return list(found.__struct_fields__)
    if isinstance(found, pydantic.BaseModel):
        return [*type(found).model_fields, *(found.__pydantic_private__ or ())]
    named: list[str] = list(type(found)._fields) if _is_named(found) else list(getattr(found, "__dict__", ()))
    return [*named, *(name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(found, name))]


def _is_named(found: object) -> bool:
    return isinstance(found, tuple) and hasattr(type(found), "_fields")
