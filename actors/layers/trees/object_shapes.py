"""The attributes by which objects count, and what all objects of a class have in common there."""

from __future__ import annotations

import dataclasses
import functools
import string
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from logging import Logger
from operator import itemgetter
from re import Pattern
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import NamedTuple
from uuid import UUID

import msgspec
from pydantic import BaseModel

from actors.definitions.agents.base import BaseAgent
from actors.layers.trees.origins import is_installed, is_pythons, is_users

_SHOWN = (date, time, timedelta, tzinfo, Decimal, UUID, complex, range)
"""Classes whose values their text tells."""

_SPECIAL = (
    *(
        Enum,
        tuple,
        list,
        dict,
        set,
        frozenset,
        type,
        FunctionType,
        CodeType,
        MethodType,
        functools.partial,
        ModuleType,
        BaseAgent,
    ),
    *(classmethod, staticmethod, property, Logger, Pattern),
)
"""Classes whose objects, and those of their subclasses, count in ways of their own."""

_DATA_OF_PYTHON = (SimpleNamespace, string.Template, Fraction, functools._lru_cache_wrapper)
"""Of Python's own classes, those whose objects are what their attributes say. Others, such as locks and queues, have a state."""

_IN_USE = ("close", "aclose", "acquire", "connect", "shutdown", "__enter__", "__aenter__", "currsize")
"""Methods of what is open, locked or filled as it is used: clients, sessions, pools and caches."""

_FIRST = itemgetter(0)


class ObjectShape(NamedTuple):
    """What all objects of a class have in common.

    Attributes:
        is_shown: their text tells their values.
        changes_in_use: they are of Python or a package, and their attributes say what was done with them, such as of a logger, a
            lock, a client or a cache: they count by their class.
        is_struct, is_model: a struct of msgspec, a model of pydantic.
        has_own_state: it is a model with a state of its own, which changes with each call.
        has_only_attributes: what they say of themselves are their attributes as they stand.
        fields: of a struct.
        computed: the names of cached properties, whose values stand among the attributes.
        slots: those of classes of the user.
    """

    is_shown: bool
    changes_in_use: bool
    is_struct: bool
    is_model: bool
    has_own_state: bool
    has_only_attributes: bool
    fields: tuple[str, ...]
    computed: frozenset[str]
    slots: tuple[str, ...]


@lru_cache(1_024)
def shape_of(kind: type) -> ObjectShape:
    """The facts that all objects of a class have in common."""
    computed: set[str] = set()
    slots: list[str] = []
    for each in kind.__mro__:
        computed.update(name for name, member in vars(each).items() if isinstance(member, cached_property))
        own = vars(each).get("__slots__", ())
        slots += [name for name in ((own,) if isinstance(own, str) else own) if is_users(each) and not name.startswith("__")]
    is_model = issubclass(kind, BaseModel)
    is_data = is_model or issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")
    return ObjectShape(
        is_shown=issubclass(kind, _SHOWN) or kind.__module__.startswith("pathlib"),
        changes_in_use=not is_data and _changes_in_use(kind),
        is_struct=issubclass(kind, msgspec.Struct),
        is_model=is_model,
        has_own_state=hasattr(kind, "adopt") and hasattr(kind, "state"),
        has_only_attributes=not (is_model or computed or slots),
        fields=getattr(kind, "__struct_fields__", ()),
        computed=frozenset(computed),
        slots=tuple(slots),
    )


def _changes_in_use(kind: type) -> bool:
    if is_pythons(kind):
        return not issubclass(kind, _DATA_OF_PYTHON)
    # A toolset of google-adk is closed, too, and is what its author has written.
    return is_installed(kind.__module__) and not hasattr(kind, "get_tools") and any(hasattr(kind, name) for name in _IN_USE)


@lru_cache(1_024)
def is_plain(kind: type) -> bool:
    """True for a class whose objects count by their attributes: most of what there is many of."""
    return not issubclass(kind, _SPECIAL)


def attributes(value: object, shape: ObjectShape) -> list[tuple[str, object]] | None:
    """The attributes of an object; None when it tells nothing."""
    if shape.is_struct:
        return [(name, getattr(value, name)) for name in shape.fields]
    kept = getattr(value, "__dict__", None)
    if isinstance(kept, dict):
        if shape.has_own_state:
            return [(name, kept[name]) for name in sorted(kept) if not name.startswith("_")]
        if shape.has_only_attributes:
            return sorted(kept.items(), key=_FIRST)
    found: dict[str, object] = {}
    if isinstance(kept, dict):
        found.update({name: each for name, each in kept.items() if name not in shape.computed} if shape.computed else kept)
    if shape.is_model:
        for name in ("__pydantic_extra__", "__pydantic_private__"):
            found[name] = getattr(value, name, None)
    for name in shape.slots:
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return [(name, found[name]) for name in sorted(found)] if found or isinstance(kept, dict) else None
