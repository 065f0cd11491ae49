"""Pickling of `functools.cached_property` in classes that travel by value, such as those of the main file.

In Python 3.11 it has a lock, which cannot be pickled.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable
from typing import Any


def let_travel() -> None:
    """Have cached properties be pickled without their locks."""
    copyreg.dispatch_table[functools.cached_property] = _reduced


def _reduced(value: functools.cached_property[Any]) -> tuple[Callable[..., functools.cached_property[Any]], tuple[Any, ...]]:
    return _made, (value.func, value.attrname)


def _made(function: Callable[[Any], Any], name: str | None) -> functools.cached_property[Any]:
    made = functools.cached_property(function)
    made.attrname = name
    return made
