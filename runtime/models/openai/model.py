"""Models that speak Chat Completions, through the unmodified openai client.

Importing this file does not load the SDK, which costs a third of a second and 44 MB: the first call does, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from actors.errors import ModelConfigurationError, ModelError
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.failures import in_words, sdk_error, service_error
from runtime.models.openai.answers import OpenAIAnswers
from runtime.models.openai.messages import request_body
from runtime.models.openai.services import OTHER, SERVICES, service_of
from runtime.models.service import ServiceModel, without_user
from runtime.models.wire import call_options

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_END = b"[DONE]"
"""What stands in the place of the last chunk of a stream."""
_END_S = 0.1


class OpenAIModel(ServiceModel["AsyncOpenAI"]):
    """A model of OpenAI, or of any service that speaks Chat Completions.

    Args:
        model: the name as the service takes it. Without `base_url` it may begin with a service's name, as in
            `groq/llama-3.3-70b-versatile`: openai, ollama, openrouter, groq, mistral, deepseek, xai or together. Without one it
            is a model of OpenAI.
        base_url: the endpoint of another service, such as `http://localhost:8000/v1`. The name goes to it unchanged.
        api_key: overrides the environment.
        api_key_env: the environment variable that holds the key. By default that of the service, and none with `base_url`.
        headers: further headers of each request.
        extra_body: further fields of each request's body. `http_options` of an agent's configuration has both for one agent.
        retries, timeout_s, retry_initial_delay_s: see ServiceModel.
    """

    sdk = "openai"
    extra = "raygrove[openai]"
    names_its_end = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        retries: int = 4,
        timeout_s: float | None = None,
        retry_initial_delay_s: float = 1.0,
    ) -> None:
        super().__init__(
            model=model, api_key=api_key, retries=retries, timeout_s=timeout_s, retry_initial_delay_s=retry_initial_delay_s
        )
        self._service = OTHER if base_url is not None else service_of(model)[0]
        self._base_url = base_url
        self._headers = dict(headers or {})
        self._extra_body = dict(extra_body or {})
        variable = api_key_env or self._service.key_variable
        self.key_variables = (variable,) if variable else ()

    def connect(self) -> AsyncOpenAI:
        """Make a client. It never repeats calls by itself."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        from runtime.models.http import over_aiohttp

        given = self._base_url or os.environ.get(self._service.url_variable) or self._service.base_url
        base_url, user = without_user(given or SERVICES["openai"].base_url)
        client = AsyncOpenAI(
            api_key=self.key() or "none",  # the client wants one, also where the service does not
            base_url=base_url,
            max_retries=0,
            timeout=self.timeout_s,
            default_headers={**user, **self._headers},
            http_client=over_aiohttp(DefaultAsyncHttpxClient, self.connections(base_url)),
        )
        _ = client.chat.completions  # its modules load when it is first looked at
        return client

    async def call(self, client: AsyncOpenAI, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Make one call: see ServiceModel."""
        from openai import NOT_GIVEN

        from runtime.models.http import server_events

        model = request.model or self.model
        options = call_options(request.config)
        body = request_body(request, self._name_for(model), self._service, stream=stream)
        answers = OpenAIAnswers(model)
        # All stands in the extra body, which goes out as it is: the client would look through every field of its own arguments.
        asking = client.chat.completions.with_streaming_response.create(
            model=body["model"],
            messages=[],
            stream=stream,
            extra_body={**body, **self._extra_body, **options.body},
            extra_headers=options.headers,
            timeout=NOT_GIVEN if options.timeout_s is None else options.timeout_s,
        )
        async with asking as response:
            if not stream:
                if (said := answers.add(json.loads(await response.read()))) is not None:
                    yield said
            else:
                async with aclosing(server_events(response.iter_bytes())) as events:
                    async for event in events:
                        if event.data.startswith(_END):
                            await _read_on(events)
                            break
                        if (said := answers.add(_chunk(event.data, model))) is not None:
                            yield said
        if (end := answers.end_answer(is_whole=not stream)) is not None:
            yield end

    def failure(self, model: str, error: Exception) -> ModelError | None:
        """The failure that an exception of the client stands for."""
        import openai

        known = sdk_error(model, error, openai)
        if known is None and isinstance(error, openai.APIError):  # an error in the middle of a stream
            return service_error(model, _status(error.code), error.message)
        if known is None and isinstance(error, openai.OpenAIError):
            return ModelConfigurationError(model, in_words(error))
        return known

    def _name_for(self, model: str) -> str:
        """The name as the service takes it."""
        return model.removeprefix(f"{self._service.name}/") if self._base_url is None else model


def _chunk(data: bytes, model: str) -> object:
    """A chunk of a stream as JSON. Raises ModelServiceError when it is an error in the middle of it."""
    chunk = json.loads(data)  # not by msgspec, which takes no half of a character
    error = chunk.get("error") if isinstance(chunk, dict) else None
    if not error:
        return chunk
    told = error if isinstance(error, dict) else {"message": error}
    raise service_error(model, _status(told.get("code")), str(told.get("message") or "an error in the middle of a stream"))


async def _read_on(events: AsyncIterator[object]) -> None:
    """Wait a moment for the end of a response, so that its connection can be kept: some services leave it open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            async for _ in events:
                pass


def _status(code: object) -> int | None:
    """The HTTP status that some services put into an error's code."""
    return int(code) if isinstance(code, int | str) and str(code).isdigit() else None
