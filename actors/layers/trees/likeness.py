"""Which objects are alike: of one class, with equal attributes that are data. One of them tells all about the others.

A tree may have a hundred thousand agents, each with a model of its own, and most of these are made alike.
"""

from __future__ import annotations

import copyreg
import marshal
from collections.abc import Hashable
from functools import lru_cache
from itertools import chain
from sys import getrefcount
from types import NoneType
from typing import Any

from actors.layers.trees.object_shapes import is_plain, shape_of

_VALUES = frozenset({NoneType, bool, int, float, str, bytes})

_VERSION = 4
"""Of marshal's format: one in which an object that occurs twice differs from two that are equal."""

_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__")


def likeness(value: object) -> Hashable | None:
    """A key that is equal for objects that are alike only; None where it takes more to tell.

    Of those that are alike some may have different keys.
    """
    kind: Any = type(value)
    if not _counts_by_attributes(kind) or value.__class__ is not kind:
        return None
    attributes = vars(value)
    for each in attributes.values():
        # Nothing deeper: marshal takes arrays of any kind for bytes.
        if type(each) not in _VALUES and not _is_flat(each):
            return None
    return kind, marshal.dumps(attributes, _VERSION)


def _is_flat(value: object) -> bool:
    """True for a list or a dictionary of simple values."""
    kind = type(value)
    if isinstance(value, tuple):
        return kind is tuple and _VALUES.issuperset(map(type, value))
    # What else refers to it may go on sharing it where the object travels to.
    if getrefcount(value) > _ALONE:
        return False
    if isinstance(value, list):
        return kind is list and _VALUES.issuperset(map(type, value))
    return isinstance(value, dict) and kind is dict and _VALUES.issuperset(map(type, chain(value, value.values())))


def _references(value: object) -> int:
    return getrefcount(value)


def _of_one_that_is_alone() -> int:
    kept = {"": list[int]()}
    (each,) = kept.values()
    return _references(each)


_ALONE = _of_one_that_is_alone()
"""References to a value of a dictionary that nothing else has, as a function counts them that is given it out of a loop."""


@lru_cache(1_024)
def _counts_by_attributes(kind: type) -> bool:
    """True for a class whose objects are what their attributes say, and travel so."""
    shape = shape_of(kind)
    return (
        is_plain(kind)
        and shape.has_only_attributes
        and not (shape.is_shown or shape.is_struct or shape.has_own_state)
        and all(getattr(kind, name) is getattr(object, name) for name in _PICKLING if hasattr(object, name))
        and not hasattr(kind, "__getnewargs__")
        and not hasattr(kind, "__getnewargs_ex__")
        and kind not in copyreg.dispatch_table
        and not any(vars(each).get("__slots__") for each in kind.__mro__)
        and bool(kind.__dictoffset__)
    )
