"""Gemini, on the Gemini API or Vertex AI, through the unmodified google-genai client.

Importing this file does not load the SDK, which costs half a second and 60 MB: the first call does, in a thread.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from actors.errors import ModelConfigurationError, ModelError, ModelResponseError
from actors.messages.llm.model import LlmRequest, LlmResponse
from runtime.models import credentials
from runtime.models.failures import in_words, own_error, service_error, shortened
from runtime.models.gemini_calls import call_service
from runtime.models.retries import retry_after_s
from runtime.models.service import ServiceModel, plain_url, without_user
from runtime.models.wire.call_options import call_options, server_timeout

if TYPE_CHECKING:
    from google.genai import Client, types


_BASE_URL = "https://generativelanguage.googleapis.com"


class Gemini(ServiceModel["Client"]):
    """A model of the Gemini family.

    One object serves any number of calls at once, from any event loop. Each loop has a client of its own, which is made at the
    first call and never pickled. Key, project and region come from the client's own environment variables.

    Args:
        model: name or resource name, as the client takes it; `LlmRequest.model` overrides it.
        api_key: overrides GOOGLE_API_KEY and GEMINI_API_KEY.
        base_url: another endpoint; without it GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL counts.
        retries, timeout_s, retry_initial_delay_s: see ServiceModel. Each request carries the time limit, too.
    """

    sdk = "google.genai"
    names_its_end = True

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
        super().__init__(
            model=model, api_key=api_key, retries=retries, timeout_s=timeout_s, retry_initial_delay_s=retry_initial_delay_s
        )
        self._base_url = base_url

    def missing_configuration(self) -> str | None:
        """The package or key that this process lacks to use the model, and how to give it; None if nothing.

        Looks at the arguments and the environment only, and loads nothing.
        """
        return _lacks(self.model, self._api_key)

    def configuration_check(self) -> Callable[[], str | None] | None:
        """Asks the same in another process and without the model: see ServiceModel."""
        if type(self).missing_configuration is not Gemini.missing_configuration:
            return None
        return partial(_lacks, self.model, "given" if self._api_key else None)

    def connect(self) -> Client:
        """Make a client. Raises ModelConfigurationError."""
        from google.auth.exceptions import GoogleAuthError
        from google.genai import Client

        import runtime.models.genai_types  # noqa: F401  (loaded here, off the event loop)

        try:
            arguments = credentials.client_arguments(self._api_key, os.environ)
            is_vertex = bool(arguments.get("vertexai"))
            options = self._http_options(is_vertex=is_vertex)
            url = options.base_url or self._given_url(is_vertex=is_vertex) or _BASE_URL
            options.aiohttp_client = self.connections(url).session
            return Client(**arguments, http_options=options)
        except (ValueError, GoogleAuthError) as error:
            raise ModelConfigurationError(self.model, f"{error} ({credentials.HOW_TO_GIVE})") from error

    def endpoint(self, client: Client) -> str:
        """Where a client sends its calls: the URL that was given, or the name of the API."""
        given = plain_url(self._given_url(is_vertex=bool(client.vertexai)))
        return given or ("Vertex AI" if client.vertexai else "Gemini API")

    async def disconnect(self, client: Client) -> None:
        """Close a client."""
        await client.aio.aclose()
        client.close()

    async def call(self, client: Client, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Make one call: see ServiceModel."""
        from runtime.models.genai_types import from_response, generate_config

        model = request.model or self.model
        config = generate_config(request, model=model, vertex=client.vertexai)
        timeout_s = call_options(request.config).timeout_s or self.timeout_s
        async with aclosing(call_service(client, model, config, stream, timeout_s)) as chunks:
            async for chunk in chunks:
                yield from_response(chunk, is_whole=not stream)

    def failure(self, model: str, error: Exception) -> ModelError | None:
        """The failure that an exception of the client stands for."""
        return own_gemini_error(model, error)

    def _given_url(self, *, is_vertex: bool) -> str:
        return self._base_url or os.environ.get("GOOGLE_VERTEX_BASE_URL" if is_vertex else "GOOGLE_GEMINI_BASE_URL", "")

    def _http_options(self, *, is_vertex: bool) -> types.HttpOptions:
        from google.genai import types

        bare, user = without_user(self._given_url(is_vertex=is_vertex))
        return types.HttpOptions(
            base_url=bare if user else self._base_url,
            headers={**user, **server_timeout(self.timeout_s)},
            retry_options=types.HttpRetryOptions(attempts=1),  # None lets the SDK repeat once by itself, after 1-10 s
        )


def _lacks(model: str, api_key: str | None) -> str | None:
    return credentials.missing(model, api_key, os.environ)


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
