"""Fingerprints of what users write: equal for equal definitions, in any process, and different when code of a user differs.

Definitions are data, functions and objects. Data counts by its value, a function by its code, and by all that the code refers
to: constants, closures, globals, functions of other modules of the user. What belongs to Python or to this project counts by its
name, and what is installed by what a model may be shown of it as well: its text and its annotations. No code of a user is called.
An object that tells nothing of itself counts by its class. So does one of Python or a package that tells what was done with it,
as locks and clients do: the same file has the same fingerprint before and after its code has run. A logger counts by its name.

Objects are alike that are of one class, with equal attributes that are data: one of them tells all about the others. A tree may
have a hundred thousand agents, each with a model of its own, and most of these are made alike.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import marshal
import re
import string
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain
from logging import Logger
from operator import itemgetter
from re import Pattern
from sys import getrefcount
from types import CodeType, FunctionType, MethodType, ModuleType, NoneType, SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
from pydantic import BaseModel

from actors.definitions.agents.base import BaseAgent
from actors.errors.tracebacks import is_own_file
from actors.layers.updates.versions import PRINT_BYTES

MAX_PARTS = 20_000
"""Parts of one value that are looked at: a table of a million rows counts by its first ones."""

MAX_DEPTH = 60
"""So deep a value is looked into: what is nested deeper counts by what is around it."""

ATTRIBUTE_DEPTH = 2
"""So much further away than what a list holds are the attributes of an object: what objects know of each other has no end."""

_SIMPLE: dict[type, bytes] = {kind: kind.__name__.encode() + b" " for kind in (type(None), bool, int, float, str, bytes)}
_SIMPLE_BASES = (int, float, str, bytes)
_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})
_encode = msgspec.msgpack.Encoder().encode

_LISTS = (tuple, list)
_VALUES = (str, int, float, bytes, tuple, list, dict, set, frozenset, type)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_AGENT_FACTS = ("name", "description", "mode", "input_schema", "output_schema")


class Fingerprints:
    """Makes fingerprints, and keeps those of objects that many agents share, as long as it lives."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, bytes]] = {}
        self._lists: dict[tuple[int, ...], bytes] = {}
        self._alike: dict[Hashable, bytes] = {}

    def of(self, value: object) -> bytes | str:
        """The fingerprint of a value; that of a text is the text."""
        if type(value) is str:
            return value
        if isinstance(value, str):
            # As it is, without calling what its class makes of it.
            return str.__str__(value)
        if (kept := self._kept.get(id(value))) is not None:
            return kept[1]
        if value.__class__ is dict and not value:
            # Each agent has empty ones of its own.
            return _NOTHING
        if isinstance(value, _LISTS):
            # Lists are made for each agent, and their tools are shared.
            key = tuple(map(id, value))
            made = self._lists.get(key)
            if made is None:
                made = self._lists[key] = _hashed(b"l", *map(self.of, value))
            return made
        if (alike := likeness(value)) is not None:
            made = self._alike.get(alike)
            if made is None:
                made = self._alike[alike] = _Walk(self._class_of(value)).of(value)
            return made
        made = _Walk(self._class_of(value)).of(value)
        self._kept[id(value)] = (value, made)
        return made

    def _class_of(self, value: object) -> Mapping[type, bytes | str]:
        """The class of an object that counts by its attributes, with its fingerprint: a hundred thousand models share one."""
        kind: Any = type(value)
        return {kind: self.of(kind)} if is_plain(kind) and kind is value.__class__ else {}


def combined(parts: Sequence[bytes | str]) -> bytes:
    """The fingerprint of several in their order."""
    try:
        encoded = _encode(parts)
    except UnicodeEncodeError:
        # A text with half characters.
        encoded = _encode([each.encode("utf-16", "surrogatepass") if isinstance(each, str) else each for each in parts])
    return blake2b(encoded, digest_size=PRINT_BYTES).digest()


def _hashed(*parts: bytes | str) -> bytes:
    return combined(parts)


_NOTHING = _hashed(b"dict")


class _Walk:
    """One walk over all that a value is made of. What was met before counts by the number of its first place.

    Args:
        known: the fingerprints of classes that need not be walked through.
        around: the walk that has come to a set, for one of its members. It knows what it is in, so that no walk goes in circles.
    """

    def __init__(self, known: Mapping[type, bytes | str], around: _Walk | None = None) -> None:
        self._known = known
        self._met: dict[int, int] = dict(around._met) if around is not None else {}
        self._alive: list[object] = []
        self._depth: int = around._depth if around is not None else 0
        self._parts: Iterator[int] = around._parts if around is not None else iter(range(MAX_PARTS))

    def of(self, value: object) -> bytes:
        kind: Any = type(value)
        if (name := _SIMPLE.get(kind)) is not None:
            # Not hashed by itself: a tree of a hundred thousand models has a million of them.
            return name + repr(value).encode(errors="surrogatepass")
        if not _is_walked(kind):
            if issubclass(kind, _SIMPLE_BASES):
                return _hashed(kind.__name__.encode(), repr(value).encode(errors="surrogatepass"))
            if not is_users(value) and not is_installed(value.__module__):
                # Its name is all that counts of a class.
                return _hashed(b"class", self._name(value))
        place = self._met.get(id(value))
        if place is not None:
            return _hashed(b"met", place.to_bytes(8))
        if self._depth >= MAX_DEPTH or next(self._parts, None) is None:
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
        if value.__class__ is not type(value):
            # It only claims a class, as mocks do that stand for a function.
            return self._of_object(value)
        kind: Any = type(value)
        if kind in _CONTAINERS:
            return self._of_container(value)
        if is_plain(kind):
            return self._of_object(value)
        match value:
            case Enum():
                return _hashed(b"enum", self._name(type(value)), value.name.encode())
            case tuple() | list():
                return _hashed(b"list", self.of(type(value)) if is_users(type(value)) else b"", *map(self.of, value))
            case set() | frozenset() | dict():
                return self._of_container(value)
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
            case Logger():
                return _hashed(b"logger", value.name.encode())
            case Pattern():
                return _hashed(b"pattern", self.of(value.pattern), self.of(value.flags))
            case BaseAgent():
                # Another agent, which has a fingerprint of its own.
                facts = (getattr(value, fact, None) for fact in _AGENT_FACTS)
                return _hashed(b"agent", self._name(type(value)), *map(self.of, facts))
            case classmethod() | staticmethod():
                return self.of(value.__func__)
            case property():
                return _hashed(b"property", self.of(value.fget), self.of(value.fset))
        return self._of_object(value)

    def _of_container(self, value: object) -> bytes:
        match value:
            case dict():
                return _hashed(b"dict", *(self.of(part) for item in value.items() for part in item))
            case set() | frozenset():
                # Each by itself, since they come in any order.
                return _hashed(
                    b"set", *sorted((self if type(each) in _SIMPLE else _Walk(self._known, self)).of(each) for each in value)
                )
            case _:
                return _hashed(b"list", b"", *map(self.of, cast(Iterable[object], value)))

    def _of_function(self, function: FunctionType) -> bytes:
        if not is_users(function):
            return _hashed(b"function", self._name(function), *self._face(function))
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
        if not is_users(module):
            return module
        return [module.__name__, [(name, vars(module)[name]) for name in names if name in vars(module)]]

    def _of_code(self, code: CodeType) -> bytes:
        names = (code.co_name, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return _hashed(
            b"code", code.co_code, code.co_exceptiontable, repr((names, numbers)).encode(), *map(self.of, code.co_consts)
        )

    def _of_class(self, kind: type) -> bytes:
        if not is_users(kind):
            return _hashed(b"class", self._name(kind), *self._face(kind))
        members = [(name, each) for name, each in sorted(vars(kind).items()) if _tells(name, each)]
        parts: list[object] = [kind.__qualname__, kind.__doc__, list(kind.__bases__), _annotations(kind), members]
        if issubclass(kind, BaseModel):
            parts += [[(name, field.default, field.description) for name, field in kind.model_fields.items()]]
        return _hashed(b"class", *map(self.of, parts))

    def _of_object(self, value: object) -> bytes:
        kind: Any = type(value)
        shape = shape_of(kind)
        if shape.is_shown:
            return _hashed(b"shown", self._name(kind), repr(value).encode(errors="surrogatepass"))
        state = attributes(value, shape) if not shape.changes_in_use else None
        if state is None and not is_users(kind):
            named = getattr(value, "__qualname__", "")
            return _hashed(b"object", self._name(kind), named.encode() if isinstance(named, str) else b"")
        if state is None:
            return _hashed(b"object", self._of_kind(kind))
        parts = [b"object", self._of_kind(kind)]
        self._depth += ATTRIBUTE_DEPTH
        for name, each in state:
            parts += name.encode(), self.of(each)
        self._depth -= ATTRIBUTE_DEPTH
        return combined(parts)

    def _of_kind(self, kind: type) -> bytes | str:
        known = self._known.get(kind)
        return self.of(kind) if known is None else known

    def _face(self, value: FunctionType | type) -> tuple[bytes, ...]:
        """The part of an installed function or class that a model may be shown: another release of its package may change it."""
        if not is_installed(value.__module__):
            return ()
        found = vars(value).get("__annotations__") if isinstance(value, type) else value.__annotations__
        shown: list[object] = [value.__doc__, [(name, _plain(each)) for name, each in (found or {}).items()]]
        if isinstance(value, FunctionType):
            shown += [value.__code__.co_varnames[: value.__code__.co_argcount + value.__code__.co_kwonlyargcount]]
            shown += [[_plain(each) for each in value.__defaults__ or ()]]
        return tuple(map(self.of, shown))

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
    if not isinstance(found, Mapping):
        return ""
    # What an annotation has of functions and objects is shown with their addresses.
    return _ADDRESS.sub("", repr(sorted(found.items(), key=lambda item: item[0])))


def _tells(name: str, member: object) -> bool:
    """True for members of a class that a user has written."""
    if isinstance(member, FunctionType | classmethod | staticmethod | property | functools.cached_property):
        return not name.startswith("__pydantic")
    return not name.startswith("_") and isinstance(member, _VALUES)


@functools.lru_cache(1_024)
def _is_walked(kind: type) -> bool:
    """True for a class whose objects are walked through; False for kinds of numbers and texts, and for classes of classes."""
    return issubclass(kind, Enum) or not issubclass(kind, (*_SIMPLE_BASES, type))


def _plain(value: object) -> object:
    """A value, if its text is the same in every process; of a class its name."""
    if isinstance(value, type):
        return value.__qualname__
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__qualname__


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


def is_users(value: Any) -> bool:
    """True for a module of the user, and for what is defined in one: neither installed, nor Python's, nor this project's."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and _is_users_module(name)


@lru_cache(4_096)
def _is_users_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not (is_own_file(file) or _is_in_packages(file))


def is_pythons(kind: type) -> bool:
    """True for a class of Python itself."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}


@lru_cache(4_096)
def is_installed(name: str | None) -> bool:
    """True for a module of a package that is neither Python's nor this project's."""
    file = getattr(sys.modules.get(name or ""), "__file__", None)
    return file is not None and _is_in_packages(file) and not is_own_file(file)


def _is_in_packages(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


_DATA = frozenset({NoneType, bool, int, float, str, bytes})

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
        if type(each) not in _DATA and not _is_flat(each):
            return None
    return kind, marshal.dumps(attributes, _VERSION)


def _is_flat(value: object) -> bool:
    """True for a list or a dictionary of simple values."""
    kind = type(value)
    if isinstance(value, tuple):
        return kind is tuple and _DATA.issuperset(map(type, value))
    # What else refers to it may go on sharing it where the object travels to.
    if getrefcount(value) > _ALONE:
        return False
    if isinstance(value, list):
        return kind is list and _DATA.issuperset(map(type, value))
    return isinstance(value, dict) and kind is dict and _DATA.issuperset(map(type, chain(value, value.values())))


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
