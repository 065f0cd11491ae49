"""Fingerprints of what users write: equal for equal definitions, in any process, and different when code of a user differs.

Definitions are data, functions and objects. Data counts by its value, a function by its code, and by all that the code refers to:
constants, closures, globals, functions of other modules of the user. What is installed, and what belongs to Python, counts by its
name. No code of a user is called. An object that tells nothing of itself counts by its class.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from re import Pattern
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import msgspec
from pydantic import BaseModel

from actors.definitions.agents.base import BaseAgent
from actors.errors.tracebacks import is_own_file
from actors.messages.operating.versions import PRINT_BYTES

MAX_PARTS = 20_000
"""Parts of one value that are looked at: a table of a million rows counts by its first ones."""

MAX_DEPTH = 60
"""So deep a value is looked into: what is nested deeper counts by what is around it."""

_SHOWN = (date, time, timedelta, tzinfo, Decimal, Pattern, UUID, complex, range)
"""Classes whose values their text tells."""

_encode = msgspec.msgpack.Encoder().encode

_VALUES = (str, int, float, bytes, tuple, list, dict, set, frozenset, type)
_AGENT_FACTS = ("name", "description", "mode", "input_schema", "output_schema")


class Fingerprints:
    """Makes fingerprints, and keeps those of objects that many agents share, as long as it lives."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, bytes]] = {}
        self._lists: dict[tuple[int, ...], bytes] = {}

    def of(self, value: object) -> bytes:
        """The fingerprint of a value; that of a text is the text."""
        if isinstance(value, str):
            # Its first letter tells it from a fingerprint.
            return b"s" + value.encode(errors="surrogatepass")
        kept = self._kept.get(id(value))
        if kept is not None:
            return kept[1]
        if isinstance(value, tuple | list):
            # Lists are made for each agent, and their tools are shared.
            key = tuple(map(id, value))
            made = self._lists.get(key)
            if made is None:
                made = self._lists[key] = _hashed(b"l", *map(self.of, value))
            return made
        made = _Walk().of(value)
        self._kept[id(value)] = (value, made)
        return made


def combined(parts: Iterable[bytes]) -> bytes:
    """The fingerprint of several in their order."""
    return _hashed(*parts)


def _hashed(*parts: bytes) -> bytes:
    return blake2b(_encode(parts), digest_size=PRINT_BYTES).digest()


class _Walk:
    """One walk over all that a value is made of. What was met before counts by the number of its first place."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._alive: list[object] = []
        self._depth = 0

    def of(self, value: object) -> bytes:
        if value is None or (isinstance(value, bool | int | float | str | bytes) and not isinstance(value, Enum)):
            return _hashed(type(value).__name__.encode(), repr(value).encode(errors="surrogatepass"))
        place = self._met.get(id(value))
        if place is not None:
            return _hashed(b"met", place.to_bytes(8))
        if len(self._met) >= MAX_PARTS or self._depth >= MAX_DEPTH:
            return b""
        self._met[id(value)] = len(self._met)
        # Two objects in turn may have one id.
        self._alive.append(value)
        self._depth += 1
        try:
            return self._of_new(value)
        finally:
            self._depth -= 1

    def _of_new(self, value: object) -> bytes:
        match value:
            case Enum():
                return _hashed(b"enum", self._name(type(value)), value.name.encode())
            case tuple() | list():
                return _hashed(b"list", self.of(type(value)) if _is_users(type(value)) else b"", *map(self.of, value))
            case set() | frozenset():
                return _hashed(b"set", *sorted(_Walk().of(each) for each in value))
            case dict():
                return _hashed(b"dict", *(self.of(part) for item in value.items() for part in item))
            case type():
                return self._of_class(value)
            case FunctionType():
                return self._of_function(value)
            case CodeType():
                return self._of_code(value)
            case MethodType():
                return _hashed(b"method", self.of(value.__func__), self.of(value.__self__))
            case functools.partial():
                return _hashed(b"partial", self.of(value.func), self.of(value.args), self.of(value.keywords))
            case ModuleType():
                return _hashed(b"module", value.__name__.encode())
            case BaseAgent():
                # Another agent, which has a fingerprint of its own.
                facts = (getattr(value, fact, None) for fact in _AGENT_FACTS)
                return _hashed(b"agent", self._name(type(value)), *map(self.of, facts))
            case classmethod() | staticmethod():
                return self.of(value.__func__)
            case property():
                return _hashed(b"property", self.of(value.fget), self.of(value.fset))
        return self._of_object(value)

    def _of_function(self, function: FunctionType) -> bytes:
        if not _is_users(function):
            return _hashed(b"function", self._name(function))
        code = function.__code__
        cells = [_content(cell) for cell in function.__closure__ or ()]
        names = _names(code)
        found = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
        parts: list[object] = [
            code,
            function.__defaults__,
            function.__kwdefaults__,
            _annotations(function),
            cells,
            vars(function),
        ]
        parts += [self._attributes(each, names) if isinstance(each, ModuleType) else each for _, each in found]
        return _hashed(b"function", *(name.encode() for name, _ in found), *map(self.of, parts))

    def _attributes(self, module: ModuleType, names: Iterable[str]) -> object:
        """The parts of a module of the user that some code may mean, which has these names in it."""
        if not _is_users(module):
            return module
        return [module.__name__, [(name, vars(module)[name]) for name in names if name in vars(module)]]

    def _of_code(self, code: CodeType) -> bytes:
        names = (code.co_name, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return _hashed(
            b"code", code.co_code, code.co_exceptiontable, repr((names, numbers)).encode(), *map(self.of, code.co_consts)
        )

    def _of_class(self, kind: type) -> bytes:
        if not _is_users(kind):
            return _hashed(b"class", self._name(kind))
        members = [(name, each) for name, each in sorted(vars(kind).items()) if _tells(name, each)]
        parts: list[object] = [kind.__qualname__, kind.__doc__, list(kind.__bases__), _annotations(kind), members]
        if issubclass(kind, BaseModel):
            parts += [[(name, field.default, field.description) for name, field in kind.model_fields.items()]]
        return _hashed(b"class", *map(self.of, parts))

    def _of_object(self, value: object) -> bytes:
        kind = type(value)
        if isinstance(value, _SHOWN) or kind.__module__.startswith("pathlib"):
            return _hashed(b"shown", self._name(kind), repr(value).encode(errors="surrogatepass"))
        state = _state(value)
        if state is None and not _is_users(kind):
            named = getattr(value, "__qualname__", "")
            return _hashed(b"object", self._name(kind), named.encode() if isinstance(named, str) else b"")
        return _hashed(b"object", self.of(kind), self.of(state))

    @staticmethod
    def _name(value: Any) -> bytes:
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode(errors="surrogatepass")


def _names(code: CodeType) -> list[str]:
    """The names of globals and attributes in some code, those of functions inside it included, each once."""
    found = dict.fromkeys(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found.update(dict.fromkeys(_names(const)))
    return list(found)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # It gets its value later.
        return None


def _annotations(value: object) -> str:
    found = vars(value).get("__annotations__") if isinstance(value, type) else getattr(value, "__annotations__", None)
    return repr(sorted(found.items(), key=lambda item: item[0])) if isinstance(found, Mapping) else ""


def _tells(name: str, member: object) -> bool:
    """True for members of a class that a user has written."""
    if isinstance(member, FunctionType | classmethod | staticmethod | property | functools.cached_property):
        return not name.startswith("__pydantic")
    return not name.startswith("_") and isinstance(member, _VALUES)


def _state(value: object) -> object:
    """The attributes of an object; None when it tells nothing."""
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    found: dict[str, object] = {}
    kept = getattr(value, "__dict__", None)
    if isinstance(kept, dict):
        found.update({name: each for name, each in kept.items() if not _is_computed(type(value), name)})
        if hasattr(type(value), "adopt") and hasattr(type(value), "state"):
            # A model with a state of its own, which changes with each call.
            return [(name, kept[name]) for name in sorted(kept) if not name.startswith("_")]
    if isinstance(value, BaseModel):
        for name in ("__pydantic_extra__", "__pydantic_private__"):
            found[name] = getattr(value, name, None)
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if _is_users(kind) and not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return [(name, found[name]) for name in sorted(found)] if found or isinstance(kept, dict) else None


def _is_computed(kind: type, name: str) -> bool:
    return any(isinstance(vars(each).get(name), functools.cached_property) for each in kind.__mro__)


def _is_users(value: Any) -> bool:
    """True for a module of the user, and for what is defined in one: neither installed, nor Python's, nor this project's."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and _is_users_module(name)


@functools.lru_cache(4_096)
def _is_users_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not (is_own_file(file) or "site-packages" in file or "dist-packages" in file)
