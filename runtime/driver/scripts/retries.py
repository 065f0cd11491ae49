"""Which errors of a turn are worth another attempt, and how often."""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import (
    ActorLostError,
    AgentFailedError,
    DefinitionError,
    PluginFailedError,
    RequestError,
    RuntimeClosedError,
    TurnCancelledError,
    TurnError,
)
from actors.rules.backoff import Backoff
from runtime.driver.arguments import checked_number

BACKOFF = Backoff(first_s=0.5, longest_s=30.0)
"""The waits before further attempts."""

HOPELESS = (RequestError, DefinitionError, TurnCancelledError)
"""Errors that a plain number of retries leaves as they are: another attempt would fail as well, or was not wanted."""

ErrorKind = type[BaseException] | str
"""A class of errors; or the name of one that an agent's own code raises."""


class Retries:
    """How often each kind of error is retried.

    Args:
        given: a number, for any error but those in `HOPELESS`; or numbers by kind of error.

    Raises:
        RequestError: `given` is neither.
    """

    def __init__(self, given: int | Mapping[ErrorKind, int]) -> None:
        self._number = 0
        self._kinds: list[tuple[ErrorKind, int]] = []
        if not isinstance(given, Mapping):
            self._number = checked_number("retries", given)
            return
        for kind, number in given.items():
            if not isinstance(kind, str) and not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise RequestError(f"retries has the key {kind!r}: give a class of errors, or the name of one")
            self._kinds.append((kind, checked_number(f"retries[{_name(kind)}]", number)))

    def of(self, error: BaseException) -> int:
        """The number of attempts that may follow the first one that failed with this error."""
        if not self._kinds:
            return 0 if isinstance(error, HOPELESS) else self._number
        return next((number for kind, number in self._kinds if _is(error, kind)), 0)


def _name(kind: ErrorKind) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def _is(error: BaseException, kind: ErrorKind) -> bool:
    if isinstance(kind, type) and isinstance(error, kind):
        return True
    # Of what an agent's own code raised, the driver gets the name of the class.
    raised = str(error.args[1]) if isinstance(error, AgentFailedError | PluginFailedError) else ""
    return _name(kind) in (raised, type(error).__name__)


def ends_map(error: BaseException) -> bool:
    """True for an error that all further inputs would meet: the deployment is gone."""
    return isinstance(error, RuntimeClosedError | ActorLostError) and not isinstance(error, TurnError)
