"""One attempt of a model call: what has come of its answer, what was shown of it, and whether it is whole.

Rules of this file: an answer that was cut off is never taken for a whole one, and what a caller was shown is never begun again.
"""

from __future__ import annotations

import msgspec

from actors.errors import ModelError, ModelResponseError, ModelServiceError
from actors.layers.limiter.rate_limiter import RETRYABLE
from actors.messages.llm.model import LlmResponse
from runtime.models.failures import RetryPolicy, broken_off
from runtime.models.streaming import Aggregate, with_error_code

_CUT_OFF = "the stream ended before the model did (no finish reason came)"


class Attempt:
    """Takes in the pieces of one attempt.

    Args:
        model: the model's name, for errors.
        is_shown: the caller is shown each piece as it comes.
        names_its_end: the last piece has a finish reason; without one the answer was cut off.
    """

    def __init__(self, model: str, *, is_shown: bool, names_its_end: bool) -> None:
        self._model = model
        self._is_shown = is_shown
        self._names_its_end = names_its_end
        self._has_shown = False
        self._answer = Aggregate()
        self._last = LlmResponse()

    def add(self, piece: LlmResponse) -> LlmResponse | None:
        """Take in the next piece. Returns what the caller is shown of it; None for nothing."""
        self._answer.add(piece)
        self._last = piece
        if not self._is_shown or piece.content is None:
            return None
        self._has_shown = True
        return msgspec.structs.replace(piece, partial=True, error_code=None, error_message=None)

    def check_end(self) -> None:
        """Check what has come, when nothing more comes.

        Raises:
            ModelServiceError: it was cut off, and may be asked for again.
            ModelResponseError: it was cut off after a part of it was shown, or it has neither a content nor a reason for that.
        """
        if self._answer.is_whole():
            return
        if not self._answer.pieces:
            raise ModelServiceError(self._model, None, "the answer ended before it began")
        if self._names_its_end:
            raise self._cut_off()
        if not self._is_shown and self.response().content is None:
            raise ModelResponseError(self._model, "it holds neither a content nor a reason for having none")

    def is_whole_despite(self, failure: ModelError | None) -> bool:
        """True for a connection that was lost after the model had ended."""
        return isinstance(failure, ModelServiceError) and self._answer.is_whole()

    def delay_s(self, retries: RetryPolicy, attempt: int, failure: ModelError | None) -> float | None:
        """Seconds to wait before the call is made again; None if it is not.

        Args:
            retries: how often and when.
            attempt: the number of this attempt, from 1.
            failure: how it ended.
        """
        if self._has_shown or not isinstance(failure, ModelServiceError):
            return None
        is_passing = failure.code is None or failure.code in RETRYABLE
        return retries.delay_s(attempt, failure.retry_after_s) if is_passing else None

    def error(self, error: Exception, failure: ModelError | None) -> Exception:
        """The error for the caller: the failure, or that the answer broke off after a part of it was shown.

        Args:
            failure: what it means; None if it is raised as it is.
        """
        if self._has_shown and isinstance(failure, ModelServiceError):
            return broken_off(self._model, error)
        return failure or error

    def response(self) -> LlmResponse:
        """The whole response."""
        if self._is_shown or self._answer.pieces > 1:
            return self._answer.response()
        return with_error_code(self._last)

    def _cut_off(self) -> ModelError:
        return ModelResponseError(self._model, _CUT_OFF) if self._has_shown else ModelServiceError(self._model, None, _CUT_OFF)
