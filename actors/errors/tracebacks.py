"""Tracebacks of users' code as text: where the code failed, and nothing of the values that it worked with.

Frames of this project, of Python's own library and of the libraries that this project calls are left out where they only lead
from an actor to the user's code. What the user's code calls in its turn is kept, and so are the errors that led to the error.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterator, Sequence
from types import TracebackType

from actors.errors.tree import RaygroveError
from actors.errors.user_code import code_of, error_text

MAX_FRAMES = 24
"""Frames that are kept of one error: the first and the last ones."""

MAX_ERRORS = 12
"""Errors that are kept of a chain and of the groups in it, the newest ones."""

MAX_LINE = 200
"""Characters that are kept of a line of code."""

MAX_TITLE = 1_000
"""Characters that are kept of an error's message, which is in the event as a whole."""

MAX_BYTES = 16 * 1024
"""Bytes that are kept of a traceback: with its message it fits into the smallest limit of an event."""

_FIRST = 8
"""Frames that are kept from the beginning of a long traceback."""

_HEAD = "Traceback (most recent call last):"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"
_REMOTE = "\nThe above exception came from another process, where it was the following exception:\n"

_own: tuple[str, ...] = (os.path.normcase(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,)
_STDLIB = os.path.normcase(sysconfig.get_path("stdlib")) + os.sep
_INSTALLED = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_LIBRARIES = ("fsspec", "gcsfs", "google", "httpx", "msgspec", "psycopg", "pydantic", "ray", "s3fs", "sqlalchemy", "uvloop")
_CALLED = tuple(f"{folder}{library}{os.sep}" for folder in _INSTALLED for library in _LIBRARIES)
"""The libraries that this project calls itself, or through which it calls users' code."""


def count_as_own(package: str) -> None:
    """Have the frames of another package of this project left out.

    Args:
        package: the path of its `__init__`.
    """
    global _own
    _own = (*_own, os.path.normcase(os.path.dirname(os.path.abspath(package))) + os.sep)


def is_own_file(file: str) -> bool:
    """True for a file of this project."""
    return os.path.normcase(os.path.abspath(file)).startswith(_own)


def foreign_traceback(error: BaseException) -> str:
    """Where users' code failed, in Python's own form; "" when the error came from no such code.

    It holds files, lines, names of functions, lines of code, and the messages of the errors; of arguments and variables it does
    not hold the values.
    """
    try:
        return _bounded(_Chain().lines(error))
    except BaseException:
        # An error of a user's class, whose attributes may raise anything; nothing is awaited, so it is no cancellation.
        return ""


def whole_traceback(error: BaseException) -> str:
    """Like `foreign_traceback`; but with all frames when users' code has no part in an error that is not this project's."""
    found = foreign_traceback(error)
    if found or isinstance(error, RaygroveError):
        return found
    return _bounded([_HEAD, *_frames(list(_walk(error.__traceback__))), _title(error)])


def keep_traceback(error: BaseException, of: BaseException | None = None) -> None:
    """Put the traceback of users' code on an error that is about to leave its process, as `remote_traceback`.

    Args:
        of: the error that users' code has raised, if it is another one.
    """
    text = foreign_traceback(error if of is None else of)
    if text:
        _set_remote(error, text)


def with_traceback(error: RaygroveError, text: str) -> RaygroveError:
    """An error with a traceback of another process: as `remote_traceback`, and as a note, which Python prints with the error."""
    if text:
        _set_remote(error, text)
        error.add_note(text)
    return error


def rebuild(name: str, args: Sequence[object], traceback: str = "") -> RaygroveError:
    """The error that another process has sent as the name of its class and its arguments.

    Args:
        name: a plain RaygroveError is made where no class has it.
        traceback: becomes its `remote_traceback`, and a note.
    """
    return with_traceback(_all_classes(RaygroveError).get(name, RaygroveError)(*args), traceback)


def _all_classes(cls: type[RaygroveError]) -> dict[str, type[RaygroveError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found |= _all_classes(child)
    return found


def _set_remote(error: BaseException, text: str) -> None:
    try:
        error.remote_traceback = text  # type: ignore[attr-defined]
    except BaseException:
        # A user's class, which may take no attributes: the error travels without.
        return


class _Chain:
    """The lines of an error and of those that led to it, at most MAX_ERRORS of them."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def lines(self, error: BaseException, *, is_first: bool = True) -> list[str]:
        """The lines of an error; none when users' code has no part in it.

        Args:
            is_first: no other error came of it.
        """
        if id(error) in self._seen:
            return []
        if len(self._seen) >= MAX_ERRORS:
            return ["… the errors before are left out …"]
        self._seen.add(id(error))
        before, led_to = _before(error)
        own = self._own(error)
        earlier = self.lines(before, is_first=False) if before is not None else []
        if not own and (earlier if is_first else error.__traceback__ is None):
            # It was never raised; or it was raised by this project, because of an error of users' code.
            own = [_title(error)]
        return [*earlier, led_to, *own] if earlier and own else earlier or own

    def _own(self, error: BaseException) -> list[str]:
        frames = _frames(_of_users(list(_walk(error.__traceback__))))
        group = self._group(error) if isinstance(error, BaseExceptionGroup) else []
        text = getattr(error, "remote_traceback", "")
        remote = text.split("\n") if isinstance(text, str) and text else []
        if not frames and not group:
            return remote
        shown = [*([_HEAD, *frames] if frames else []), _title(error), *group]
        return [*remote, _REMOTE, *shown] if remote else shown

    def _group(self, group: BaseExceptionGroup[BaseException]) -> list[str]:
        """The errors of a group, each below a line with its number."""
        found: list[str] = []
        for number, each in enumerate(group.exceptions, start=1):
            if len(self._seen) >= MAX_ERRORS:
                return [*found, f"  | … {len(group.exceptions) - number + 1} more are left out …"]
            found.append(f"  +---------------- {number} ----------------")
            lines = self.lines(each, is_first=False) or [_title(each)]
            found += [f"  | {line}" for line in "\n".join(lines).split("\n")]
        return found


def _before(error: BaseException) -> tuple[BaseException | None, str]:
    """The error that led to another one, and the line between them."""
    if error.__cause__ is not None:
        return error.__cause__, _CAUSE
    return (None, "") if error.__suppress_context__ else (error.__context__, _CONTEXT)


def _title(error: BaseException) -> str:
    text = error_text(error)
    return _cut(f"{code_of(error)}: {text}" if text else code_of(error), MAX_TITLE)


def _walk(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _of_users(trace: Sequence[TracebackType]) -> Sequence[TracebackType]:
    """The frames from the first one of users' code on; none when there is none."""
    for place, each in enumerate(trace):
        if _is_users(each.tb_frame.f_code.co_filename):
            return trace[place:]
    return ()


def _is_users(path: str) -> bool:
    path = os.path.normcase(path)
    if path.startswith((*_own, "<frozen ")):
        return False
    if any(folder in path for folder in _INSTALLED):
        return not any(library in path for library in _CALLED)
    return not path.startswith(_STDLIB)


def _frames(trace: Sequence[TracebackType]) -> list[str]:
    if len(trace) <= MAX_FRAMES:
        return [_frame(each) for each in trace]
    last = MAX_FRAMES - _FIRST
    left_out = f"  … {len(trace) - MAX_FRAMES} frames are left out …"
    return [*map(_frame, trace[:_FIRST]), left_out, *map(_frame, trace[-last:])]


def _frame(trace: TracebackType) -> str:
    code = trace.tb_frame.f_code
    linecache.checkcache(code.co_filename)
    linecache.lazycache(code.co_filename, trace.tb_frame.f_globals)
    line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
    place = f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_qualname}'
    return f"{place}\n    {_cut(line, MAX_LINE)}" if line else place


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[:size]}…"


def _bounded(lines: Sequence[str]) -> str:
    """The lines as a text that can be encoded, without its middle when it is too long: its end says most."""
    raw = "\n".join(lines).encode(errors="backslashreplace")
    if len(raw) <= MAX_BYTES:
        return raw.decode()
    first, last = raw[: MAX_BYTES // 4], raw[-MAX_BYTES * 2 // 3 :]
    middle = "\n  … the middle is left out …\n"
    return f"{first.decode(errors='ignore').rpartition(chr(10))[0]}{middle}{last.decode(errors='ignore').partition(chr(10))[2]}"
