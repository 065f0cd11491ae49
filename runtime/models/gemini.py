"""Gemini, on the Gemini API or Vertex AI, through the unmodified google-genai client.

Importing this file does not load the SDK, which costs half a second and 60 MB: the first call does, in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import ModelConfigurationError
from actors.messages.model import LlmRequest, LlmResponse
from actors.rules.capacity.rate_limiter import RETRYABLE
from runtime.models import credentials
from runtime.models.gemini_calls import call_service, has_ended, streamed_responses, whole_response
from runtime.models.gemini_errors import broken_off, own_errors, retry_after_of
from runtime.models.retries import RetryPolicy, connection_errors

if TYPE_CHECKING:
    from google.genai import Client, types


class Gemini:
    """A model of the Gemini family.

    One object serves any number of calls at once, from any event loop. Each loop has a client of its own, which is made at the
    first call and never pickled. Key, project and region come from the client's own environment variables.

    Args:
        model: name or resource name, as the client takes it; `LlmRequest.model` overrides it.
        api_key: overrides GOOGLE_API_KEY and GEMINI_API_KEY.
        base_url: another endpoint; without it GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL counts.
        retries: how often a call is repeated after statuses 429, 500, 502, 503, 504 and lost connections, as long as
            no part of the response has come.
        timeout_s: a service that is silent for this long counts as lost; each request carries the limit, too.
            None waits as long as the connection lives.
        retry_initial_delay_s: seconds before the first repetition, doubled for each further one, with jitter; Retry-After of
            the service overrides it.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        retries: int = 4,
        timeout_s: float | None = None,
        retry_initial_delay_s: float = 1.0,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._retries = RetryPolicy(retries=retries, initial_delay_s=retry_initial_delay_s)
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}

    def __repr__(self) -> str:
        return f"Gemini(model={self.model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_connections"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _connections={})

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Ask once.

        Args:
            request: everything the model is to see.
            stream: yield each chunk as it arrives, marked `partial`, before the whole.

        Yields:
            The partial responses if `stream`, then exactly one whole response: texts joined, thoughts apart from other
            text, calls and signatures kept, with the last usage and finish reason.

        Raises:
            ModelConfigurationError: no key, no project, or a setting that the client refuses.
            ModelServiceError: the service refused, or was not reached, after all retries.
            ModelResponseError: the stream was cut off, or the response has no valid form.
        """
        model = request.model or self.model
        client = await self._client(model)
        with own_errors(model):
            async with aclosing(self._chunks(client, request, model, stream)) as chunks:
                async for response in streamed_responses(chunks, model) if stream else whole_response(chunks, model):
                    yield response

    def once(self) -> Gemini:
        """The same model on the same connections without retries, for callers that repeat calls themselves."""
        other = copy(self)
        other._connections = self._connections
        other._retries = msgspec.structs.replace(self._retries, retries=0)
        return other

    def missing_configuration(self) -> str | None:
        """What this process lacks to use the model and how to give it; None if nothing.

        Looks at the arguments and the environment only, and loads nothing.
        """
        return credentials.missing(self.model, self._api_key, os.environ)

    async def aclose(self) -> None:
        """Close the client of the running event loop. The next call makes a new one."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None and connection.client is not None:
            await connection.client.aio.aclose()
            connection.client.close()

    async def _client(self, model: str) -> Client:
        loop = asyncio.get_running_loop()
        if (connection := self._connections.get(loop)) is None:
            self._drop_closed_loops()
            connection = self._connections[loop] = _Connection()
        async with connection.lock:
            if connection.client is None:
                if (missing := self.missing_configuration()) is not None:
                    raise ModelConfigurationError(model, missing)
                # In a thread: loading the SDK and its certificates takes 0.6 s, and other agents of this process go on.
                connection.client = await asyncio.to_thread(self._new_client, model)
        return connection.client

    def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._connections if loop.is_closed()]:
            del self._connections[loop]

    def _new_client(self, model: str) -> Client:
        from google.auth.exceptions import GoogleAuthError
        from google.genai import Client

        import runtime.models.genai_types  # noqa: F401  (loaded here, off the event loop)

        try:
            return Client(**credentials.client_arguments(self._api_key, os.environ), http_options=self._http_options())
        except (ValueError, GoogleAuthError) as error:
            raise ModelConfigurationError(model, f"{error} ({credentials.HOW_TO_GIVE})") from error

    def _http_options(self) -> types.HttpOptions:
        from google.genai import types

        return types.HttpOptions(
            base_url=self._base_url,
            timeout=None if self._timeout_s is None else round(self._timeout_s * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),  # None lets the SDK repeat once by itself, after 1-10 s
        )

    async def _chunks(
        self, client: Client, request: LlmRequest, model: str, stream: bool
    ) -> AsyncGenerator[types.GenerateContentResponse, None]:
        """The chunks of the first attempt that gets any; attempts that fail earlier are repeated as the policy says."""
        from google.genai.errors import APIError

        from runtime.models.genai_types import generate_config

        config = generate_config(request, model=model, vertex=client.vertexai)
        failures: tuple[type[Exception], ...] = (APIError, *connection_errors())
        attempt, last = 0, None
        while True:
            try:
                async with aclosing(call_service(client, model, config, stream)) as chunks:
                    async for last in chunks:
                        yield last
                if last is None:
                    raise ConnectionError("the answer ended before it began")
                return
            except failures as error:
                if last is not None:
                    if has_ended(last):
                        return
                    raise broken_off(model, error) from error
                attempt += 1
                if (delay_s := self._delay_s(attempt, error)) is None:
                    raise
            await asyncio.sleep(delay_s)

    def _delay_s(self, attempt: int, error: Exception) -> float | None:
        from google.genai.errors import APIError

        if not isinstance(error, APIError):
            return self._retries.delay_s(attempt, None)
        if error.code not in RETRYABLE:
            return None
        return self._retries.delay_s(attempt, retry_after_of(error))


class _Connection:
    """The client of one event loop, and the lock under which it is made."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.client: Client | None = None
