"""Finds what keeps a definition from travelling: the attribute that cannot be pickled, and attributes that look like keys."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_STEPS = 8
"""How deep a path leads: below, the objects belong to a library."""

MAX_TRIED = 2_000
"""Objects that are tried for one error."""

_TEXTS = frozenset({str})

_KEY = re.compile(r"(^|_)(api_?key|secret|secret_?key|access_?key|password|passwd|auth_?token|access_?token|api_?token)$", re.I)


def obstacle(parts: Mapping[str, object], travels: Callable[[object], bool]) -> str:
    """The path to the innermost object that cannot be pickled, such as `model.client._lock`; "" if none is found.

    Args:
        parts: where to look, by the names that users know.
        travels: says whether an object can be pickled.
    """
    steps: list[str] = []
    tried: set[int] = set()
    below = iter(parts.items())
    while len(steps) < MAX_STEPS:
        found = next(((step, value) for step, value in below if _is_new(value, tried) and not travels(value)), None)
        if found is None:
            break
        steps.append(found[0])
        below = _parts(found[1])
    return "".join(steps).removeprefix(".")


def _is_new(value: object, tried: set[int]) -> bool:
    """True for an object that has not been tried: objects may refer to each other in a circle."""
    if id(value) in tried or len(tried) >= MAX_TRIED:
        return False
    tried.add(id(value))
    return True


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """The parts of a value, each with the step that leads there."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif inspect.ismethod(value):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif inspect.isfunction(value):
        yield from _used_by(value)
    else:
        yield from ((f".{name}", each) for name, each in state_of(value).items())


def _used_by(function: Callable[..., object]) -> Iterator[tuple[str, object]]:
    """The variables that a function takes from around it."""
    try:
        used = inspect.getclosurevars(function)
    except ValueError:
        return
    yield from ((f".<variable {name}>", each) for name, each in {**used.nonlocals, **used.globals}.items())


def state_of(value: object) -> Mapping[str, object]:
    """The attributes with which an object is pickled; {} when it pickles in a way of its own."""
    try:
        state = value.__getstate__() if hasattr(value, "__getstate__") else getattr(value, "__dict__", {})
    except Exception:
        # User code may raise anything.
        return {}
    if type(state) is dict and "__dict__" not in state and set(map(type, state)) <= _TEXTS:
        # Most objects. A tree may have a hundred thousand models.
        return state
    if isinstance(state, tuple):
        # Attributes of slots come second.
        state = {name: each for part in state if isinstance(part, Mapping) for name, each in part.items()}
    if isinstance(state, Mapping) and isinstance(state.get("__dict__"), Mapping):
        # A pydantic model.
        state = {**state["__dict__"], **(state.get("__pydantic_private__") or {})}
    return {str(name): each for name, each in state.items()} if isinstance(state, Mapping) else {}


def keys_in(value: object) -> list[str]:
    """The attributes of an object that look like keys or passwords and travel with it."""
    state = state_of(value)
    return [name for name in _names_of_keys(tuple(state)) if isinstance(each := state[name], str) and each]


@functools.lru_cache(maxsize=1_000)
def _names_of_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those that look like names of keys. A tree may have a hundred thousand models, with the same few attributes."""
    return tuple(filter(_KEY.search, names))
