"""What a failed model call means: its error as one of this project, and whether it is repeated, and after how long.

Errors name the model and hold no API key when they are pickled. It is only decided here; the caller waits.

The SDK's own HttpRetryOptions cover neither a Retry-After header, nor a connection that drops after it was made, nor a
stream that breaks before its first chunk; and two layers of retries would multiply. So the SDK tries once.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from actors.errors import ModelError, ModelResponseError, ModelServiceError
from actors.layers.limiter.rate_limiter import LONGEST_BACKOFF_S, MAX_RETRY_AFTER_S
from actors.messages.json_types import JsonObject, JsonValue
from actors.rules.backoff import Backoff

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


def sdk_error(model: str, error: Exception, sdk: Any) -> ModelError | None:
    """The same of a client of OpenAI or Anthropic, whose exceptions have the same names in both modules."""
    if isinstance(error, sdk.APIConnectionError):  # it says only "Connection error.", its cause says what happened
        return ModelServiceError(model, None, shortened(in_words(error.__cause__ or error)))
    if isinstance(error, sdk.APIResponseValidationError):
        return ModelResponseError(model, shortened(in_words(error)))
    return own_error(model, error)


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


_CONNECTION_ERRORS = (
    ("httpx", ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError")),
    ("httpx2", ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError")),
    ("aiohttp", ("ClientConnectionError", "ClientPayloadError")),
    ("google.auth.exceptions", ("TransportError",)),
)


def connection_errors() -> tuple[type[Exception], ...]:
    """The exceptions that mean "no response came", of every HTTP library that is loaded in this process.

    The SDK uses aiohttp when it is installed, else httpx2 or httpx, and lets their exceptions through.
    """
    libraries = ((sys.modules[name], errors) for name, errors in _CONNECTION_ERRORS if name in sys.modules)
    return (ConnectionError, TimeoutError, *(getattr(library, error) for library, errors in libraries for error in errors))


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and when a call is repeated.

    Attributes:
        retries: how often a call is repeated after its first attempt.
        initial_delay_s: the wait before the first repetition, in seconds; it doubles with each, with jitter.
    """

    retries: int
    initial_delay_s: float

    def delay_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Seconds to wait before the next attempt; None when there is to be none.

        Args:
            attempt: how many attempts have failed, from 1.
            retry_after_s: the wait that the service asked for. The backoff is the time after it over which calls spread that
                were refused together. The call is not repeated when it is longer than MAX_RETRY_AFTER_S.
        """
        if attempt > self.retries or (retry_after_s or 0.0) > MAX_RETRY_AFTER_S:
            return None
        backoff = Backoff(self.initial_delay_s, LONGEST_BACKOFF_S)
        if retry_after_s is not None:
            return retry_after_s + random.random() * backoff.after_attempts(attempt)
        return backoff.after_attempts(attempt, random.random())


class Pauses:
    """Until when a service wants to be left alone, by model: what one call was told holds for all calls of its process.

    Times are those of the event loop.
    """

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}

    def refused(self, model: str, now_s: float, retry_after_s: float) -> None:
        """A call was refused, and told how long to wait. Nothing that long is waited for: such calls fail."""
        if retry_after_s <= MAX_RETRY_AFTER_S:
            self._until_s[model] = max(now_s + retry_after_s, self._until_s.get(model, 0.0))

    def wait_s(self, model: str, now_s: float, retries: RetryPolicy) -> float:
        """Seconds that a call has yet to wait, with a share of the first backoff so that calls do not all end their wait at once.

        Those that are not repeated do not wait either: their caller decides.
        """
        left_s = self._until_s.get(model, 0.0) - now_s
        return left_s + random.random() * retries.initial_delay_s if left_s > 0 and retries.retries else 0.0


def retry_after_s(headers: Mapping[str, Any] | None, details: JsonValue, now_s: float | None = None) -> float | None:
    """The wait that the service asked for, in seconds from now; None when it asked for none.

    Args:
        headers: headers of the response. `Retry-After` is seconds or an HTTP date.
        details: the JSON body of the error. Gemini's quota errors put `retryDelay` ("34.5s") into a RetryInfo there.
        now_s: seconds since the epoch; None takes the clock's.
    """
    header = (headers or {}).get("retry-after") or (headers or {}).get("Retry-After")
    if header:
        return _header_s(str(header), time.time() if now_s is None else now_s)
    delays = (re.fullmatch(r"(\d+(?:\.\d+)?)s", str(info.get("retryDelay", ""))) for info in _error_infos(details))
    return next((float(delay[1]) for delay in delays if delay), None)


def _header_s(header: str, now_s: float) -> float | None:
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now_s)
    except ValueError:
        return None


def _error_infos(details: JsonValue) -> list[JsonObject]:
    error = details.get("error") if isinstance(details, dict) else None
    infos = error.get("details") if isinstance(error, dict) else None
    return [info for info in infos if isinstance(info, dict)] if isinstance(infos, list) else []
