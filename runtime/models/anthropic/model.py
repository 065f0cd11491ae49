"""Anthropic's models, through the unmodified anthropic client.

Importing this file does not load the SDK, which costs 0.7 seconds and 69 MB: the first call does, in a thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from actors.errors import ModelConfigurationError, ModelError
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.anthropic.answers import AnthropicAnswers
from runtime.models.anthropic.messages import request_body
from runtime.models.failures import in_words, retry_after_s, sdk_error, service_error
from runtime.models.service import ServiceModel, without_user
from runtime.models.wire import call_options

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_PREFIX = "anthropic/"
_BASE_URL = "https://api.anthropic.com"

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses of errors that come in a stream, whose own status is 200."""


class AnthropicModel(ServiceModel["AsyncAnthropic"]):
    """A model of Anthropic.

    Thoughts come back to the service with their signatures, as it demands. Each call is a stream, also where none is shown.

    Args:
        model: the name as the service takes it, such as `claude-sonnet-4-5`; it may begin with `anthropic/`.
        base_url: another endpoint; without it ANTHROPIC_BASE_URL counts.
        api_key: overrides the environment.
        api_key_env: the environment variable that holds the key; ANTHROPIC_API_KEY by default.
        max_tokens: the greatest length of an answer without what is thought, unless the agent's `max_output_tokens` says another
            one; the service wants to have one.
        cache: how long the service keeps what it has read, so that the next call pays less for the same beginning: "5m", "1h", or
            None for not at all.
        headers: further headers of each request.
        extra_body: further fields of each request's body. `http_options` of an agent's configuration has both for one agent.
        retries, timeout_s, retry_initial_delay_s: see ServiceModel.
    """

    sdk = "anthropic"
    extra = "raygrove[anthropic]"
    names_its_end = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str = "ANTHROPIC_API_KEY",
        max_tokens: int = 8192,
        cache: Literal["5m", "1h"] | None = "5m",
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        retries: int = 4,
        timeout_s: float | None = None,
        retry_initial_delay_s: float = 1.0,
    ) -> None:
        super().__init__(
            model=model, api_key=api_key, retries=retries, timeout_s=timeout_s, retry_initial_delay_s=retry_initial_delay_s
        )
        if cache not in ("5m", "1h", None):
            raise ModelConfigurationError(model, f"cache must be '5m', '1h' or None, not {cache!r}")
        self.key_variables = (api_key_env,)
        self._base_url = base_url
        self._max_tokens = max_tokens
        self._cache = cache
        self._headers = dict(headers or {})
        self._extra_body = dict(extra_body or {})

    def connect(self) -> AsyncAnthropic:
        """Make a client. It never repeats calls by itself."""
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        from runtime.models.http import over_aiohttp

        base_url, user = without_user(self._base_url or os.environ.get("ANTHROPIC_BASE_URL") or _BASE_URL)
        client = AsyncAnthropic(
            api_key=self.key(),
            base_url=base_url,
            max_retries=0,
            timeout=self.timeout_s,
            default_headers={**user, **self._headers},
            http_client=over_aiohttp(DefaultAsyncHttpxClient, self.connections(base_url)),
        )
        _ = client.messages  # its modules load when it is first looked at
        return client

    async def call(self, client: AsyncAnthropic, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Make one call: see ServiceModel."""
        from anthropic import NOT_GIVEN

        from runtime.models.http import server_events

        model = request.model or self.model
        options = call_options(request.config)
        body = request_body(request, model.removeprefix(_PREFIX), max_tokens=self._max_tokens, cache=self._cache)
        answers = AnthropicAnswers(model)
        # All stands in the extra body, which goes out as it is: the client would look through every field of its own arguments.
        asking = client.messages.with_streaming_response.create(
            model=body["model"],
            max_tokens=body["max_tokens"],
            messages=[],
            stream=True,
            extra_body={**body, **self._extra_body, **options.body},
            extra_headers=options.headers,
            timeout=NOT_GIVEN if options.timeout_s is None else options.timeout_s,
        )
        async with asking as response, aclosing(server_events(response.iter_bytes())) as events:
            async for event in events:
                sent = json.loads(event.data)  # not by msgspec, which takes no half of a character
                if event.name == "error":
                    raise service_error(model, _status(sent), str(sent), retry_after_s(response.headers, None))
                if (said := answers.add(sent)) is not None:
                    yield said

    def failure(self, model: str, error: Exception) -> ModelError | None:
        """The failure that an exception of the client stands for."""
        import anthropic

        known = sdk_error(model, error, anthropic)
        if known is None and isinstance(error, anthropic.AnthropicError):
            return ModelConfigurationError(model, in_words(error))
        return known


def _status(body: object) -> int | None:
    """The status that the error in a body would have."""
    error = body.get("error") if isinstance(body, dict) else None
    kind = error.get("type") if isinstance(error, dict) else None
    return _STATUSES.get(str(kind), 500)
