"""Which fields of a definition have to travel: those that are not the default, as data or as code."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from itertools import compress
from operator import is_not, itemgetter
from typing import Any

import pydantic
from pydantic_core import PydanticUndefined

from actors.definitions.agents import BaseAgent, LlmAgent

_SIMPLE = frozenset({float, bool, type(None)})
_MAX_INT = 2**63
"""MessagePack has no integers from here on."""


class ClassFields:
    """What all definitions of one class have in common.

    Attributes:
        is_opaque: the class pickles in a way of its own, or leaves out fields of its own choice when it travels.
        defaults: default values by field; fields without one are left out.
    """

    def __init__(self, kind: type[BaseAgent]) -> None:
        hooks = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
        is_usual = all(getattr(kind, hook, None) is getattr(BaseAgent, hook, None) for hook in hooks)
        self.is_opaque = not is_usual or kind.alone not in (BaseAgent.alone, LlmAgent.alone)
        found = {name: field.default for name, field in kind.model_fields.items()}
        self.defaults = {name: default for name, default in found.items() if default is not PydanticUndefined}
        # Children and models travel by themselves, placements in the rows.
        left_out = {"sub_agents", "placement", *(["model"] if issubclass(kind, LlmAgent) else [])}
        self._names = tuple(name for name in found if name not in left_out)
        self._values = itemgetter(*self._names)
        self._defaults = tuple(found[name] for name in self._names)
        self._known = frozenset(found)

    def changed(self, values: Mapping[str, Any]) -> Iterable[str]:
        """The fields whose value is not the default object itself. It runs for each agent, so its loop is in C."""
        changed = compress(self._names, map(is_not, self._values(values), self._defaults))
        if len(values) == len(self._known):
            return changed
        # Cached properties keep their values beside the fields.
        return [*changed, *(name for name in values if name not in self._known)]


fields_of = cache(ClassFields)
"""The fields of a class of agents."""


def identity_of(value: Any) -> Hashable:
    """A key that is equal for equal strings, for lists of the same objects, and otherwise for the same object only."""
    if type(value) is str:
        return value
    if isinstance(value, tuple | list):
        return (type(value), *map(id, value))
    return id(value)


def is_data(value: Any) -> bool:
    """True for a value that MessagePack gives back as it was: of the same type, and equal."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) or _is_text(value)
    if kind is int:
        return bool(-_MAX_INT <= value < _MAX_INT)
    if kind is dict:
        # Each agent has an empty one.
        return not value or all(type(key) is str and is_data(key) and is_data(each) for key, each in value.items())
    if kind is list:
        return all(map(is_data, value))
    return kind in _SIMPLE


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_copy_of(value: object, default: object) -> bool:
    """True for a default that pydantic has copied."""
    return isinstance(value, pydantic.BaseModel) and type(value) is type(default) and value == default
