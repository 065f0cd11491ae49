"""Errors of clients as errors of this project, which name the model and hold no API key when they are pickled."""

from __future__ import annotations

import json

import msgspec

from actors.errors import ModelError, ModelResponseError, ModelServiceError
from runtime.models.retries import connection_errors, retry_after_s

MAX_MESSAGE = 500
"""Characters of a service's message that an error quotes."""


def own_error(model: str, error: Exception) -> ModelError | None:
    """The failure that an exception of a client stands for, by the attributes that clients give to theirs; None if it has none.

    Args:
        error: with a `status_code`, or a `response` that has one; or one that means that no answer came; or one of JSON.
    """
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if isinstance(status, int):
        wait_s = retry_after_s(getattr(response, "headers", None), getattr(error, "body", None))
        return service_error(model, status, str(error), wait_s)
    if isinstance(error, connection_errors()):
        return ModelServiceError(model, None, shortened(in_words(error)))
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | msgspec.ValidationError):
        return ModelResponseError(model, shortened(in_words(error)))
    return None


def service_error(model: str, status: int | None, message: str, wait_s: float | None = None) -> ModelServiceError:
    """The error of a service that answered with a status, and perhaps said how long to wait."""
    advice = () if wait_s is None else (wait_s,)
    return ModelServiceError(model, status, shortened(message), *advice)


def broken_off(model: str, error: Exception) -> ModelResponseError:
    """The error of a stream that broke after its first piece."""
    return ModelResponseError(model, f"the stream broke off in the middle ({shortened(in_words(error))})")


def in_words(error: BaseException) -> str:
    """The class of an error and its message."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def shortened(text: str) -> str:
    """The beginning of a text that may be long."""
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
