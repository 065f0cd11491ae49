"""How a failed run is reported: in its event, in its outcome, and to the driver."""

from __future__ import annotations

import builtins

from actors.errors import AgentFailedError, NotEncodableError, RaygroveError
from actors.errors.tracebacks import rebuild, with_traceback
from actors.errors.user_code import MAX_ERROR_TEXT, code_of, error_text
from actors.messages.codec import encode
from actors.messages.event import Event
from actors.messages.json_types import JsonValue
from actors.messages.protocol.runs import Failed


def failure(error: BaseException, traceback: str = "") -> Failed:
    """The outcome of a run that raised. The arguments of a RaygroveError are included if they can be encoded and are short.

    Args:
        traceback: where users' code raised it.
    """
    args = _arguments(error) if isinstance(error, RaygroveError) else None
    return Failed(error_code=code_of(error), error_message=error_text(error), error_args=args, error_traceback=traceback)


def failure_event(failed: Failed, branch: str | None = None) -> Event:
    """The one event that a failed run leaves in the log."""
    return Event(
        branch=branch,
        error_code=failed.error_code,
        error_message=failed.error_message,
        error_traceback=failed.error_traceback or None,
    )


def error_of(failed: Failed) -> RaygroveError:
    """The error of a failed turn: one of this project as it was raised, or AgentFailedError in place of a foreign one."""
    if failed.error_args is not None:
        return rebuild(failed.error_code, failed.error_args, failed.error_traceback)
    return with_traceback(AgentFailedError(failed.agent, failed.error_code, failed.error_message), failed.error_traceback)


def classes_of(failed: Failed) -> list[str]:
    """Names of the class of a run's error and, of Python's own and this project's, of those above it."""
    known = getattr(builtins, failed.error_code, None)
    if failed.error_args is not None:
        known = type(error_of(failed))
    above = known.__mro__ if isinstance(known, type) and issubclass(known, BaseException) else ()
    return [failed.error_code, *(each.__name__ for each in above if each.__name__ != failed.error_code)]


def _arguments(error: RaygroveError) -> list[JsonValue] | None:
    args = list(error.args)
    try:
        is_short = len(encode(args)) <= 4 * MAX_ERROR_TEXT
    except NotEncodableError:
        return None
    return args if is_short else None
