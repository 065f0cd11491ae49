"""Suggests the field that was meant where a request has one that is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from actors.errors.suggestions import did_you_mean

_UNKNOWN = re.compile(r"unknown field `(?P<name>.*?)`(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)


def explained(error: Exception, expected: Any, also: Sequence[str] = ()) -> str:
    """Tell what is wrong with a request, and the field that was meant when one is not known.

    Args:
        error: from reading it.
        expected: the struct that it should be.
        also: names that are known beside those of its fields.
    """
    found = _UNKNOWN.search(str(error))
    if found is None:
        return str(error)
    fields = _fields(expected)
    for part in filter(None, (found["path"] or "").split(".")):
        fields = _fields(fields.get(part))
    names = [*also, *fields]
    return f"{error}.{did_you_mean(found['name'], names) or _listed(names)}"


def _listed(names: list[str]) -> str:
    return f" There are: {', '.join(names)}" if names else ""


def _fields(hint: Any) -> Mapping[str, Any]:
    """The types of a struct's fields by their names in JSON; also of the struct in `Struct | None`. Empty for anything else."""
    for each in (hint, *get_args(hint)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return {field.encode_name: field.type for field in msgspec.structs.fields(each)}
    return {}
