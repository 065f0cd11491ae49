"""Failures of users' code in the log of the process: who failed in which turn, and the traceback."""

from __future__ import annotations

import logging

from actors.definitions.tools.context import ReadonlyContext
from actors.errors.user_code import code_of, error_text
from actors.interfaces.context import RunContext

FAILED = "%s failed in turn %s of session %r of user %r: %s"
"""The message of every record: the code, the turn, its session and user, and the error."""


def log_failure(
    logger: logging.Logger, level: int, what: str, run: RunContext | ReadonlyContext, error: BaseException, traceback: str
) -> None:
    """Log that users' code has failed.

    Args:
        what: the code, such as "tool 'pay' of agent 'billing'".
        traceback: stands below the message, as the traceback of an exception does. The exception itself is not handed on: with it
            a formatter would show frames of this project, and some show the values of variables.
    """
    if not logger.isEnabledFor(level):
        return
    where = (run.invocation_id, run.session_id, run.user_id)
    text = f"{code_of(error)}: {error_text(error)}".removesuffix(": ")
    path, line, function, _ = logger.findCaller(stacklevel=2)
    record = logger.makeRecord(logger.name, level, path, line, FAILED, (what, *where, text), None, function)
    record.exc_text = traceback or None
    logger.handle(record)
