"""Failures of users' code in the log of the process: who failed in which turn, and the traceback."""

from __future__ import annotations

import logging
from typing import Protocol

from actors.errors.user_code import code_of, error_text

FAILED = "%s failed in turn %s of session %r of user %r: %s"
"""The message of every record: the code, the turn, its session and user, and the error."""


class RunNames(Protocol):
    """The names of a run: any context has them."""

    @property
    def agent_name(self) -> str:
        """The agent."""
        ...

    @property
    def user_id(self) -> str:
        """The user whose session it is."""
        ...

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    @property
    def invocation_id(self) -> str:
        """The turn."""
        ...


def log_failure(logger: logging.Logger, level: int, what: str, run: RunNames, error: BaseException, traceback: str) -> None:
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
