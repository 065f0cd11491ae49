"""How a model call has failed, by the types and attributes that errors of model clients have."""

from __future__ import annotations

from actors.errors import ModelServiceError
from actors.layers.limiter.rate_limiter import RETRYABLE, FailedAttempt


def failed_attempt(error: Exception, attempt: int) -> FailedAttempt | None:
    """The kind of failure of an attempt; None if repeating it would not help."""
    if isinstance(error, ModelServiceError):
        is_retryable = error.code is None or error.code in RETRYABLE
        return FailedAttempt(attempt=attempt, status=error.code, retry_after_s=error.retry_after_s) if is_retryable else None
    if isinstance(error, ConnectionError | TimeoutError):
        return FailedAttempt(attempt=attempt)
    # The name that most clients have for it.
    status = getattr(error, "status_code", None)
    return FailedAttempt(attempt=attempt, status=status) if status in RETRYABLE else None
