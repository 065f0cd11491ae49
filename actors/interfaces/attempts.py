"""Tries of a model call, as whatever makes them tells them: an agent that is recorded wants to know who was asked how often.

A context variable holds who wants to know, since models are objects of anybody's making, some of which ask others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from actors.errors.user_code import error_text
from actors.messages.llm.recorded import CallAttempt

_Clock = Callable[[], float]


class NotedAttempt:
    """A try that was told, and may be told to have failed."""

    def __init__(self, attempts: list[CallAttempt], place: int) -> None:
        self._attempts = attempts
        self._place = place

    def failed(self, error: BaseException) -> None:
        """Say with which error it has ended."""
        if self._place < len(self._attempts):
            attempt, text = self._attempts[self._place], f"{type(error).__name__}: {error_text(error)}"
            self._attempts[self._place] = msgspec.structs.replace(attempt, error=text)


NO_ATTEMPT = NotedAttempt([], 0)
"""Stands for a try that nothing wants to know of."""

_current: ContextVar[list[CallAttempt] | None] = ContextVar("raygrove_attempts", default=None)


def are_noted() -> bool:
    """True where something wants to know of the tries of models."""
    return _current.get() is not None


def note_attempt(model: str, endpoint: str = "", clock: _Clock = time.time) -> NotedAttempt:
    """Tell that a model is about to be asked.

    Args:
        model: its name.
        endpoint: where its service is.
        clock: seconds since the epoch.
    """
    attempts = _current.get()
    if attempts is None:
        return NO_ATTEMPT
    attempts.append(CallAttempt(model=model, endpoint=endpoint, begun_s=clock()))
    return NotedAttempt(attempts, len(attempts) - 1)


@contextmanager
def noting_attempts() -> Iterator[list[CallAttempt]]:
    """Collect the tries of models within the block, by this task and those that it starts."""
    attempts: list[CallAttempt] = []
    token = _current.set(attempts)
    try:
        yield attempts
    finally:
        _current.reset(token)
