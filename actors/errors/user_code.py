"""User code: functions of users, models and tools, which may raise anything.

A `SystemExit` or `KeyboardInterrupt` that leaves a task ends the event loop, and with it every other run in the process. A
`CancelledError` that user code raises by itself looks like a real cancellation. So callers of user code catch
`BaseException`, let real cancellations pass (`is_cancellation`), and treat every other error as a failure of that code.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

MAX_ERROR_TEXT = 4_000
"""Characters that are kept of an error's message."""

UserFunction = Callable[..., Any]
"""A function that a user wrote, sync or async: a tool, a callback, an instruction."""

UserResult = Any
"""What a user's function returned, before it is checked."""

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """True when the running task is being cancelled; False when only something that it awaits was cancelled."""
    this = asyncio.current_task()
    return this is not None and this.cancelling() > 0


def is_cancellation(error: BaseException) -> bool:
    """True when the error is the cancellation of the running task; False for one that user code made up."""
    if isinstance(error, GeneratorExit):
        # Python also closes a coroutine with it when no task runs that coroutine any more.
        return _is_outside_of_tasks()
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled()


def is_interrupt(error: BaseException) -> bool:
    """True for the Ctrl-C of a program, which comes in its main thread alone, where no agent runs."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _is_outside_of_tasks() -> bool:
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def error_text(error: BaseException) -> str:
    """An error's message in a form that can be stored; "" when the error has none."""
    try:
        return storable(str(error))
    except BaseException:
        # A user's own class, whose __str__ raises; nothing is awaited, so it is no cancellation.
        return ""


def storable(text: str) -> str:
    """A text that can be encoded, cut to `MAX_ERROR_TEXT` characters."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= MAX_ERROR_TEXT else f"{text[:MAX_ERROR_TEXT]}…"


def code_of(error: BaseException) -> str:
    """The class name of an error, as events store it."""
    return storable(type(error).__name__)


async def in_thread(function: Callable[..., T], /, *unnamed: object, **arguments: object) -> T:
    """Call a blocking function in a thread, away from the event loop.

    Raises:
        BaseException: whatever the function raises.
    """

    def call() -> T | _Raised:
        this = ThreadCall()
        _thread_call.set(this)
        # An asyncio future refuses a StopIteration, and its awaiter would wait for ever: so errors come out as values.
        try:
            return function(*unnamed, **arguments)
        except BaseException as error:
            return _Raised(error)
        finally:
            this.returned()

    result = await asyncio.to_thread(call)
    if isinstance(result, _Raised):
        raise result.error
    return result


class _Raised(NamedTuple):
    error: BaseException


class ThreadCall:
    """A call that `in_thread` makes, for what it holds until it returns."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self._releases: list[Callable[[], None]] | None = []

    def on_return(self, release: Callable[[], None]) -> bool:
        """Have a function called when the call returns. False: it has returned already."""
        if self._releases is None:
            return False
        self._releases.append(release)
        return True

    def returned(self) -> None:
        """Release what the call holds."""
        releases, self._releases = self._releases or [], None
        for release in releases:
            release()


_thread_call: ContextVar[ThreadCall | None] = ContextVar("_thread_call", default=None)


def call_of_thread() -> ThreadCall | None:
    """The call of `in_thread` in which this code runs; None for code of the event loop, and of threads that users start."""
    call = _thread_call.get()
    # Whatever a thread hands to a loop, or to another thread, may run with the variables of the first.
    return call if call is not None and call.thread == threading.get_ident() else None
