"""Errors of Google's client as errors of this project. Importing this file does not load the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.errors import ModelConfigurationError, ModelResponseError, ModelServiceError
from runtime.models.retries import connection_errors, retry_after_s

if TYPE_CHECKING:
    from google.genai.errors import APIError

MAX_MESSAGE = 500
"""Characters of a service's message that an error quotes."""


@contextmanager
def own_errors(model: str) -> Iterator[None]:
    """Raise errors of the client and its HTTP library as errors that name the model, and hold no API key when pickled."""
    from google.genai.errors import APIError, UnknownApiResponseError
    from pydantic import ValidationError

    try:
        yield
    except APIError as error:
        wait_s = retry_after_of(error)
        advice = () if wait_s is None else (wait_s,)
        raise ModelServiceError(model, error.code, _shortened(f"{error.status}: {error.message}"), *advice) from error
    except connection_errors() as error:
        raise ModelServiceError(model, None, _in_words(error)) from error
    except (json.JSONDecodeError, UnknownApiResponseError, ValidationError) as error:
        raise ModelResponseError(model, _shortened(str(error))) from error
    except ValueError as error:
        raise ModelConfigurationError(model, str(error)) from error


def retry_after_of(error: APIError) -> float | None:
    """The wait that the service asked for with an error, in seconds; None when it asked for none."""
    return retry_after_s(getattr(error.response, "headers", None), error.details)


def broken_off(model: str, error: Exception) -> ModelResponseError:
    """The error of a stream that broke after its first chunk."""
    return ModelResponseError(model, f"the stream broke off in the middle ({_shortened(_in_words(error))})")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
