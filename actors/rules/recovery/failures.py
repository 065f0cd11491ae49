"""How a failure is told: what stands in its event, and what travels to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.errors import NotEncodableError, RaygroveError
from actors.errors.user_code import MAX_ERROR_TEXT, code_of, error_text
from actors.messages.codec import encode
from actors.messages.protocol.outcomes import Failed


def failure(error: BaseException) -> Failed:
    """The end of a run that raised. Its own facts go along if it is one of this project's errors and they can travel."""
    args = _facts(error) if isinstance(error, RaygroveError) else None
    return Failed(error_code=code_of(error), error_message=error_text(error), error_args=args)


def _facts(error: RaygroveError) -> Sequence[Any] | None:
    args = list(error.args)
    try:
        is_short = len(encode(args)) <= 4 * MAX_ERROR_TEXT
    except NotEncodableError:
        return None
    return args if is_short else None
