"""The attributes by which objects count, and what all objects of a class have in common there."""

from __future__ import annotations

import functools
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
from operator import itemgetter
from re import Pattern
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple
from uuid import UUID

import msgspec
from pydantic import BaseModel

from actors.definitions.agents.base import BaseAgent
from actors.definitions.tree.origins import is_users

_SHOWN = (date, time, timedelta, tzinfo, Decimal, Pattern, UUID, complex, range)
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
    *(classmethod, staticmethod, property),
)
"""Classes whose objects, and those of their subclasses, count in ways of their own."""

_FIRST = itemgetter(0)


class ObjectShape(NamedTuple):
    """What all objects of a class have in common.

    Attributes:
        is_shown: their text tells their values.
        is_struct, is_model: a struct of msgspec, a model of pydantic.
        has_own_state: it is a model with a state of its own, which changes with each call.
        has_only_attributes: what they say of themselves are their attributes as they stand.
        fields: of a struct.
        computed: the names of cached properties, whose values stand among the attributes.
        slots: those of classes of the user.
    """

    is_shown: bool
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
    return ObjectShape(
        is_shown=issubclass(kind, _SHOWN) or kind.__module__.startswith("pathlib"),
        is_struct=issubclass(kind, msgspec.Struct),
        is_model=is_model,
        has_own_state=hasattr(kind, "adopt") and hasattr(kind, "state"),
        has_only_attributes=not (is_model or computed or slots),
        fields=getattr(kind, "__struct_fields__", ()),
        computed=frozenset(computed),
        slots=tuple(slots),
    )


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
