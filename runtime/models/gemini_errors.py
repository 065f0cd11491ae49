"""Errors of Google's client as errors of this project. Importing this file does not load the SDK."""

from __future__ import annotations

from actors.errors import ModelConfigurationError, ModelError, ModelResponseError
from runtime.models.failures import in_words, own_error, service_error, shortened
from runtime.models.retries import retry_after_s


def own_gemini_error(model: str, error: Exception) -> ModelError | None:
    """The failure that an exception of the client or its HTTP library stands for; None if it comes from elsewhere."""
    from google.genai.errors import APIError, UnknownApiResponseError
    from pydantic import ValidationError

    if isinstance(error, APIError):
        wait_s = retry_after_s(getattr(error.response, "headers", None), error.details)
        return service_error(model, error.code, f"{error.status}: {error.message}", wait_s)
    if isinstance(error, UnknownApiResponseError | ValidationError):
        return ModelResponseError(model, shortened(str(error)))
    known = own_error(model, error)
    if known is None and isinstance(error, ValueError):
        return ModelConfigurationError(model, in_words(error))
    return known
