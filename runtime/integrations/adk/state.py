"""A session as user code of google-adk sees it: its state, a dictionary that knows what was written into it; and its events.

Async code cannot wait for the events when it looks at `session.events`. So they are read before it runs, if it may look at them.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from actors.definitions.tools.state import State
from actors.errors import NotEncodableError

_MISSING = object()

_READ = frozenset({"events", "get_events", "_get_events"})
"""Names by which code reads a session's events."""

MOST_FUNCTIONS = 500
"""Of code that refers to more functions than these no one is looked at: reading the events once costs less."""

_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class StateCopy(dict[str, Any]):
    """A session's state in one run. It is a dictionary, as ADK's is, and user code may write into it past any event.

    Lists and dictionaries are copied when they are read: what is changed inside of them must not change what the agent's actor
    remembers of the session. All that is changed is stored with the next event.

    Args:
        state: the state as it is stored. Its values are never changed in place.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        super().__init__(state)
        # The stored values of the keys that user code may have changed.
        self._stored: dict[str, Any] = {}

    def changes(self) -> dict[str, Any]:
        """The changes of user code, by key; None for what it has removed."""
        found: dict[str, Any] = {}
        for key, stored in self._stored.items():
            now = super().get(key, _MISSING)
            if now is _MISSING:
                if stored is not _MISSING:
                    found[key] = None
            elif now is not stored and (type(now) is not type(stored) or now != stored):
                found[key] = now
        return found

    def stored(self, state: Mapping[str, Any]) -> None:
        """Take over the state as it is stored now, with all that was written here before."""
        self._stored.clear()
        super().clear()
        super().update(state)

    def rebase(self, state: Mapping[str, Any]) -> None:
        """Take over the state as it is stored now; what is written here and not stored stays."""
        changes, gone = self.changes(), [key for key in self._stored if key not in self]
        self.stored(state)
        self.update(changes)
        for key in gone:
            self.pop(key, None)

    def _note(self, key: str) -> None:
        if key not in self._stored:
            self._stored[key] = super().get(key, _MISSING)

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, dict | list) and key not in self._stored:
            self._stored[key] = value
            value = copy.deepcopy(value)
            super().__setitem__(key, value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._note(key)
        super().__delitem__(key)

    def __iter__(self) -> Iterator[str]:
        # With a method of its own for this, dict(state) and **state get their values from __getitem__, too.
        return super().__iter__()

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self[key] if key in self else default  # noqa: SIM401 - dict.get would not copy

    def items(self) -> Any:
        """Keys and values."""
        return self.copy().items()

    def values(self) -> Any:
        """All values."""
        return self.copy().values()

    def copy(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {key: self[key] for key in self}

    def update(self, *others: Any, **more: Any) -> None:
        """Set several keys."""
        for key, value in dict(*others, **more).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set to the default if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key, and return its value."""
        if key not in self and default:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key, and return it with its value."""
        key = next(reversed(list(self)), None)
        if key is None:
            raise KeyError("the state is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all keys."""
        for key in list(self):
            del self[key]


class LiveState(StateCopy):
    """The state of a callback or a call, over raygrove's: what is written is seen at once by other calls of the same response.

    Args:
        state: raygrove's, which takes what is written.
    """

    def __init__(self, state: State) -> None:
        # What reads the dictionary past its methods, such as pydantic, finds the state as it is stored.
        super().__init__(state.stored)
        self._live = state
        # What cannot be stored: it may be gone again when the call is over.
        self._unstorable: dict[str, Any] = {}

    def changes(self) -> dict[str, Any]:
        """The changes that raygrove's state did not take."""
        return dict(self._unstorable)

    def __getitem__(self, key: str) -> Any:
        if key in self._unstorable:
            return self._unstorable[key]
        return self._live[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._unstorable.pop(key, None)
        try:
            self._live[key] = value
        except NotEncodableError:
            self._unstorable[key] = value
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._unstorable.pop(key, None)
        if key in self._live:
            del self._live[key]
        dict.pop(self, key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._unstorable or key in self._live

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._live, *self._unstorable]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def keys(self) -> Any:
        """All keys."""
        return dict.fromkeys(self).keys()

    def __repr__(self) -> str:
        return repr(self.copy())


def may_read_events(code: Any) -> bool:
    """True when a function, or code that it refers to, in whatever module, names the events of a session.

    A name that means something else costs a read, and so does code that refers to very much. A method of an object that the
    function is only given is not found.
    """
    key = code.__func__ if isinstance(code, MethodType) else code
    try:
        found = _known.get(key)
        if found is None:
            found = _known[key] = _names_events(code)
    except TypeError:
        # A callable object that cannot be a key.
        return _names_events(code)
    return found


def _names_events(code: Any) -> bool:
    left: list[tuple[Any, type | None]] = [(code, None)]
    seen: set[int] = set()
    while left:
        found, owner = left.pop()
        each: Any = found.func if isinstance(found, partial) else found
        if isinstance(each, MethodType):
            each, owner = each.__func__, type(each.__self__)
        elif not isinstance(each, FunctionType):
            # A callable object.
            owner = type(each)
            each = getattr(owner, "__call__", None)  # noqa: B004
        if isinstance(each, FunctionType) and id(each) not in seen:
            seen.add(id(each))
            if len(seen) > MOST_FUNCTIONS:
                return True
            names = {name for nested in _nested(each.__code__) for name in nested.co_names}
            if names & _READ:
                return True
            left += _referred(each, names, owner)
    return False


def _is_pythons(module: str | None) -> bool:
    return (module or "").partition(".")[0] in sys.stdlib_module_names


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _referred(function: FunctionType, names: Iterable[str], owner: type | None) -> Iterator[tuple[Any, type | None]]:
    """Functions that it names, of modules and of classes too, and functions that it encloses; none of Python's own."""
    classes = {owner} if owner is not None else set()
    modules: list[ModuleType] = []
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            yield value, None
        elif isinstance(value, ModuleType):
            modules.append(value)
        elif value is not None:
            classes.add(value if isinstance(value, type) else type(value))
    for name in names:
        # Past what a module may do when it is asked for a name that it has not imported yet.
        of_modules = [(vars(module).get(name), None) for module in modules]
        for found, of_class in [*of_modules, *((getattr(each, name, None), each) for each in classes)]:
            if isinstance(found, FunctionType) and not _is_pythons(found.__module__):
                yield found, of_class
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            # Not set yet.
            continue
        if isinstance(value, FunctionType | MethodType):
            yield value, owner
