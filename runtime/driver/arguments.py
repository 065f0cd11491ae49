"""Numbers and texts that a program passes to a request: a wrong one is refused by its name before anything is sent."""

from __future__ import annotations

import math
from datetime import timedelta

from actors.errors import RequestError
from actors.rules.checks.ids import printable

MAX_INTEGER = 2**63 - 1
"""The largest whole number that stores can compare with."""


def checked_number(what: str, value: object, least: int = 0) -> int:
    """The value, if it is a whole number that is not less than `least`, and that stores can hold.

    Args:
        what: the name of the argument, for the error: "after_seq".

    Raises:
        RequestError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"{what} must be a whole number from {least} on, not {printable(value)!r}")
    if value > MAX_INTEGER:
        raise RequestError(f"{what} must be at most {MAX_INTEGER}, not {printable(value)!r}")
    return int(value)


def checked_text(what: str, value: object) -> str:
    """The value, if it is a text. Raises RequestError."""
    if not isinstance(value, str):
        raise RequestError(f"{what} must be a text, not {printable(value)!r}")
    return str.__str__(value)


def checked_time(what: str, value: object) -> float:
    """The value, if it is a time in seconds since the epoch. Raises RequestError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise RequestError(f"{what} must be a time in seconds since the epoch, not {printable(value)!r}")
    return float(value)


def checked_age(what: str, value: object) -> float:
    """The value in seconds, if it is a time span above zero. Raises RequestError."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise RequestError(f"{what} must be a timedelta above zero, or a number of seconds, not {printable(value)!r}")
    return float(seconds)


def checked_choice(what: str, value: object, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices. Raises RequestError."""
    if not isinstance(value, str) or value not in choices:
        raise RequestError(f"{what} must be one of {', '.join(choices)}, not {printable(value)!r}")
    return str.__str__(value)
