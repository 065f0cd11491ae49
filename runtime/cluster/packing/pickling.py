"""Pickles of what travels to other processes, in chunks: arguments of an actor that Ray keeps even when the driver is gone.

The code of users is imported by one thread of a process at a time. Python has a lock for each module. A thread that imports a
package, which imports a module of its own, and another thread that imports this module, which needs the package, wait for each
other: Python sees it, and one of the imports fails. Two agents that begin at once in one process are such threads.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import linecache
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from types import ModuleType
from typing import Any

from ray import cloudpickle

from actors.errors import DefinitionError
from actors.layers.flows.definitions import FlowPlan
from runtime.cluster.packing.unpicklable import obstacle
from runtime.engine.process.variables import set_variables

IMPORTING = threading.RLock()
"""Held by the thread that unpickles or imports."""


def import_alone(module: str) -> None:
    """Import a module. It raises whatever that raises."""
    with IMPORTING:
        importlib.import_module(module)


def unpickle(pickled: bytes) -> Any:
    """The value of a pickle. It imports modules, and may raise whatever they raise."""
    with IMPORTING:
        return cloudpickle.loads(pickled)


def travel_by_value(module: ModuleType) -> None:
    """Have the functions and classes of a module, and of the modules below it, travel with the definitions that use them."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _reduced(value: functools.cached_property[Any]) -> tuple[Callable[..., functools.cached_property[Any]], tuple[Any, ...]]:
    return _made, (value.func, value.attrname)


def _made(function: Callable[[Any], Any], name: str | None) -> functools.cached_property[Any]:
    made = functools.cached_property(function)
    made.attrname = name
    return made


# In Python 3.11 a cached property has a lock, which cannot be pickled. Classes of the main file travel by value, with theirs.
copyreg.dispatch_table[functools.cached_property] = _reduced

CHUNK_BYTES = 64 * 1024
"""Ray stores arguments of less than 100 kB with the actor. A larger one stays in the driver's memory, and is lost with it."""

_INSTEAD = "make it where it is used, leave it out in __getstate__, or define it in a module, which every process imports"

MAX_BYTES = 8 * 1024 * 1024
"""Ray stores 10 MiB of arguments with an actor, and no more."""


def pickled(refusal: str, value: object, parts: Callable[[], Mapping[str, object]] | None = None) -> bytes:
    """A value for another process.

    Args:
        parts: what the value is made of, by the names that its user knows; by default its attributes.

    Raises:
        DefinitionError: it cannot be pickled. The message begins with `refusal`, and names the attribute that is the cause.
    """
    with refused(refusal, parts if parts is not None else lambda: {"": value}):
        raw: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return raw


@contextmanager
def refused(refusal: str, parts: Callable[[], Mapping[str, object]]) -> Iterator[None]:
    """Pickle something inside.

    Args:
        parts: what it is made of, by the names that its user knows.

    Raises:
        DefinitionError: it cannot be pickled. The message begins with `refusal`, and names the attribute that is the cause.
    """
    try:
        yield
    except Exception as error:
        # User code in a definition decides what pickling raises.
        where = obstacle(parts(), _travels)
        cause = f", which is in {where}: {_INSTEAD}" if where else ""
        raise DefinitionError(f"{refusal}: {type(error).__name__}: {error}{cause}") from error


def _travels(value: object) -> bool:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True


def pickled_plan(flow: str, plan: FlowPlan) -> bytes:
    """The definition of a flow for its agents. Raises DefinitionError."""
    parts = {f"tools of task {task!r}": tools for task, tools in plan.tools.items()}
    types = {f"result_type of task {task!r}": result for task, result in plan.results.items()}
    return pickled(f"flow {flow!r} cannot travel to its agents", plan, lambda: {**parts, **types})


def to_chunks(refusal: str, value: object, *, must_last: bool = False, variables: Mapping[str, str] | None = None) -> list[bytes]:
    """Pickle and compress a value of any size, and cut it in chunks of at most CHUNK_BYTES, for `from_chunks`.

    Args:
        refusal: begins the error.
        variables: environment variables to set in the process that unpacks the value, before it is unpickled.
        must_last: Ray has to keep the chunks after the driver has gone, so there may be at most MAX_BYTES.

    Raises:
        DefinitionError: the value cannot be pickled; or it is too large and `must_last`.
    """
    raw = zlib.compress(pickled(refusal, (dict(variables or {}), pickled(refusal, value))), level=1)
    if must_last and len(raw) > MAX_BYTES:
        raise DefinitionError(
            f"{refusal}: it has {len(raw)} bytes, and a detached deployment may have {MAX_BYTES}: keep large data in files "
            "or artifacts, not in definitions"
        )
    return [raw[start : start + CHUNK_BYTES] for start in range(0, len(raw), CHUNK_BYTES)]


def from_chunks(chunks: Sequence[bytes]) -> Any:
    """The value that a driver of this deployment gave to `to_chunks`."""
    variables, pickled_value = unpickle(zlib.decompress(b"".join(chunks)))
    # First, for the value's own classes may read variables when they are unpickled.
    set_variables(variables)
    return unpickle(pickled_value)


class SharedPickle:
    """A pickled value, and the means to pickle others that have objects in common with it.

    A tree may have a hundred thousand agents that differ in their models only. Pickled one by one, each would look up the same
    classes, and carry the same tools.

    Attributes:
        raw: the value, pickled.
    """

    def __init__(self, value: object) -> None:
        self._file = BytesIO()
        self._pickler = _pickler(self._file)
        self._pickler.dump(value)
        self.raw = self._file.getvalue()
        self._own: Any | None = None

    def dumps(self, own: object) -> bytes:
        """Pickle another value, for `load_both`: objects that are in the first one are not in these bytes again.

        Raises what pickling raises.
        """
        if self._own is None:
            self._own = _pickler(self._file)
            # A plain one: that of cloudpickle is searched by code in Python, which takes as long as the rest of a small pickle.
            self._own.dispatch_table = dict(self._own.dispatch_table)
        self._file.seek(0)
        self._file.truncate()
        # As if it had just pickled the first value: what both have in common stays one object, and so do globals of functions.
        self._own.memo = self._pickler.memo
        self._own.globals_ref = dict(self._pickler.globals_ref)
        self._own.dump(own)
        return self._file.getvalue()


def _pickler(file: BytesIO) -> Any:
    return cloudpickle.Pickler(file)  # type: ignore[no-untyped-call]


def load_both(shared: bytes, own: bytes) -> tuple[Any, Any]:
    """The value of a SharedPickle, and another that it has pickled. It imports modules, and may raise whatever they raise."""
    unpickler = pickle.Unpickler(BytesIO(shared + own))
    with IMPORTING:
        return unpickler.load(), unpickler.load()


MAX_SOURCE = 128 * 1024
"""Characters of code from one notebook's cell or program, beyond which it stays at home."""

TOGETHER = 1_000
"""Pickles that are searched at once for names that occur in none of them: a tree has a hundred thousand."""


def sources_of(pickles: Sequence[bytes]) -> list[dict[str, str]]:
    """The code of which there are functions in each pickle, by file name: that of cells and of the main program.

    Other processes cannot read it from a file. Python finds the lines for their tracebacks in `linecache`.

    Pickles with functions of the same files share one mapping.
    """
    sources = {name.encode(): (name, text) for name, text in _sources() if len(text) <= MAX_SOURCE}
    made: dict[tuple[bytes, ...], dict[str, str]] = {}
    found: list[dict[str, str]] = []
    for first in range(0, len(pickles), TOGETHER):
        some = pickles[first : first + TOGETHER]
        joined = b"".join(some)
        names = [name for name in sources if name in joined]
        for pickled in some:
            here = tuple([name for name in names if name in pickled])
            if here not in made:
                made[here] = dict(sources[name] for name in here)
            found.append(made[here])
    return found


def _sources() -> Iterator[tuple[str, str]]:
    for name, entry in list(linecache.cache.items()):
        # Entries of one part name a loader, and are of importable modules.
        if len(entry) == 4 and not os.path.exists(name):
            yield name, "".join(entry[2])
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if program is not None:
        lines = linecache.getlines(program)
        if lines:
            yield program, "".join(lines)


def install_sources(sources: Mapping[str, str]) -> None:
    """Have tracebacks of this process show lines of such code. Files that are there are read instead."""
    for name, text in sources.items():
        if not os.path.exists(name):
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
