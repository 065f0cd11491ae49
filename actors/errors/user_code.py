"""Foreign code: the functions of users, models and tools, which may raise anything.

A `SystemExit` or `KeyboardInterrupt` that leaves a task ends the event loop under it, and with that every other run in the
process; a `CancelledError` that nobody asked for looks as if somebody had. So whoever calls foreign code catches
`BaseException`, lets go on what `is_cancellation` says is one, and treats everything else as what it is: a failure of that code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LONGEST_TOLD = 4_000
"""Characters of another's error message that are kept."""


def is_being_cancelled() -> bool:
    """True in a task that somebody cancels; False when only what it awaits was cancelled."""
    this = asyncio.current_task()
    return this is not None and this.cancelling() > 0


def is_cancellation(error: BaseException) -> bool:
    """True when the error is the cancellation of the running task, and not one that foreign code made up."""
    if isinstance(error, GeneratorExit):
        # Also the way in which Python closes a coroutine that no task runs any more.
        return _is_outside_of_tasks()
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled()


def _is_outside_of_tasks() -> bool:
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def told(error: BaseException) -> str:
    """What an error says, in a form that can be stored; "" when it cannot say anything."""
    try:
        return storable(str(error))
    except Exception:
        # Somebody's own class, which cannot even be told.
        return ""


def storable(text: str) -> str:
    """A text that can be encoded, and that is not all too long."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]}…"


def code_of(error: BaseException) -> str:
    """The class name of an error, as it stands in events."""
    return storable(type(error).__name__)


async def in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a blocking function away from the event loop. Raises what it raises.

    Its errors come out as values: an asyncio future refuses a StopIteration, and whoever waits for it would do so for ever.
    """

    def call() -> tuple[Any, BaseException | None]:
        try:
            return function(**arguments), None
        except BaseException as error:
            return None, error

    result, error = await asyncio.to_thread(call)
    if error is not None:
        raise error
    return result
