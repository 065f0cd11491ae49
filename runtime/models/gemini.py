"""Gemini, on the Gemini API or Vertex AI, through the unmodified google-genai client.

Importing this file does not load the SDK, which costs half a second and 60 MB: the first call does, in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.errors import ModelConfigurationError, ModelError, ModelResponseError
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.failures import in_words, own_error, retry_after_s, service_error, shortened
from runtime.models.service import ServiceModel, plain_url, without_user
from runtime.models.wire import call_options, server_timeout

if TYPE_CHECKING:
    from google.genai import Client, types


HOW_TO_GIVE = (
    "set GOOGLE_API_KEY (or GEMINI_API_KEY) where the agents run, or pass Gemini(model=…, api_key=…); for Vertex AI set "
    "GOOGLE_GENAI_USE_VERTEXAI=true with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"
)
"""The end of every sentence about a missing key."""

_ON = {"true", "1"}


def uses_vertex(environ: Mapping[str, str]) -> bool:
    """True for Vertex AI, by the client's own rule: the newer name of the switch overrides the older one."""
    switch = environ.get("GOOGLE_GENAI_USE_ENTERPRISE", environ.get("GOOGLE_GENAI_USE_VERTEXAI", ""))
    return switch.lower() in _ON


def missing_credentials(model: str, api_key: str | None, environ: Mapping[str, str]) -> str | None:
    """The variables that the environment lacks to use the model, and how to give them; None if nothing.

    A Vertex project may also come from the machine's own credentials, so only the first call can find that it is missing.
    """
    if uses_vertex(environ):
        return None
    if model.startswith("projects/"):
        return "it is a resource of Vertex AI: set GOOGLE_GENAI_USE_VERTEXAI=true where the agents run"
    if api_key or environ.get("GOOGLE_API_KEY") or environ.get("GEMINI_API_KEY"):
        return None
    return f"there is no API key: {HOW_TO_GIVE}"


def client_arguments(api_key: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """The credentials as arguments of `google.genai.Client`.

    `vertexai` is passed although the client reads the same variables: it looks for a default endpoint before it reads them.
    With a custom endpoint it needs the project as an argument, too; else it sends requests to the bare endpoint.
    """
    if not uses_vertex(environ):
        return {"vertexai": False, "api_key": api_key}
    project = environ.get("GOOGLE_CLOUD_PROJECT")
    if api_key or not project:
        return {"vertexai": True, "api_key": api_key}
    return {"vertexai": True, "project": project, "location": environ.get("GOOGLE_CLOUD_LOCATION") or "global"}


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
            arguments = client_arguments(self._api_key, os.environ)
            is_vertex = bool(arguments.get("vertexai"))
            options = self._http_options(is_vertex=is_vertex)
            url = options.base_url or self._given_url(is_vertex=is_vertex) or _BASE_URL
            options.aiohttp_client = self.connections(url).session
            return Client(**arguments, http_options=options)
        except (ValueError, GoogleAuthError) as error:
            raise ModelConfigurationError(self.model, f"{error} ({HOW_TO_GIVE})") from error

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
    return missing_credentials(model, api_key, os.environ)


_STAND_IN = "."
"""Takes the place of the contents in the SDK's own arguments, which must not be empty; the body overwrites it."""


async def call_service(
    client: Client, model: str, config: Any, stream: bool, timeout_s: float | None
) -> AsyncGenerator[types.GenerateContentResponse, None]:
    """Call the service once, without retries; without `stream` the response comes as one chunk.

    Args:
        config: see `generate_config`.
        timeout_s: a service that says nothing for so long is lost; None: it may.

    Raises:
        TimeoutError: it is lost.
    """
    from google.genai.errors import UnknownApiResponseError

    models = client.aio.models
    try:
        if not stream:
            async with _silence_ends(timeout_s):
                answer = await models.generate_content(model=model, contents=_STAND_IN, config=config)
            yield answer
            return
        async with _silence_ends(timeout_s):
            chunks = await models.generate_content_stream(model=model, contents=_STAND_IN, config=config)
        try:
            while True:
                async with _silence_ends(timeout_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
        except GeneratorExit:
            await _abandon(chunks)
            raise
    except (AttributeError, TypeError) as error:  # what the client raises on JSON of another shape
        raise UnknownApiResponseError(f"JSON of an unknown shape ({error})") from error


@asynccontextmanager
async def _silence_ends(timeout_s: float | None) -> AsyncIterator[None]:
    """Raise TimeoutError after some seconds. The SDK's own limit is one for a whole stream."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise TimeoutError(f"nothing came for {timeout_s:g} s") from error


async def _abandon(chunks: AsyncIterator[Any]) -> None:
    """Free the connection of a stream that is not read to its end.

    Closing the client's generator is not enough: the one that holds the connection sits in a reference cycle, so it is freed
    only by a full garbage collection (google-genai 3.3). Cancelled while it waits for the service, it cleans up at once.
    """
    while True:
        step = asyncio.ensure_future(anext(chunks, None))
        await asyncio.sleep(0)  # let it come as far as the socket, or return what was received already
        step.cancel()
        await asyncio.wait([step])
        if step.cancelled() or step.exception() is not None or step.result() is None:
            return
