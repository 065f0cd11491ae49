"""Gemini, on the Gemini API or Vertex AI, through the unmodified google-genai client.

Importing this file does not load the SDK, which costs half a second and 60 MB: the first call does, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import ModelConfigurationError, ModelResponseError, ModelServiceError
from actors.messages.model import LlmRequest, LlmResponse
from actors.rules.capacity.rate_limiter import RETRYABLE
from runtime.models import credentials
from runtime.models.retries import Backoff, advised_delay_s, connection_errors
from runtime.models.streaming import Aggregate

if TYPE_CHECKING:
    from google.genai import Client, types
    from google.genai.errors import APIError

_STAND_IN = "."
"""Takes the place of the contents in the SDK's own arguments, which must not be empty; the body overwrites it."""


class Gemini:
    """A model of the Gemini family.

    One object serves any number of calls at once, from any event loop; each loop has a client of its own, made at its
    first call and never pickled. Key, project and region come from the client's own environment variables.

    Args:
        model: name or resource name, as the client takes it; `LlmRequest.model` goes before it.
        api_key: instead of GOOGLE_API_KEY or GEMINI_API_KEY.
        base_url: another endpoint; without it GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL counts.
        retries: how often a call is repeated after statuses 429, 500, 502, 503, 504 and lost connections, as long as
            nothing of the answer has come.
        timeout_s: seconds until a silent service counts as lost; it is also told to the service as the time that it has.
            None waits as long as the connection lives.
        retry_initial_delay_s: seconds before the first repetition, doubled for each further one, with jitter; what the
            service asks for (Retry-After) goes before it.
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
        self._backoff = Backoff(retries=retries, initial_delay_s=retry_initial_delay_s)
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
            The partial responses if `stream`, then exactly one whole response: texts joined, thoughts apart from the
            answer, calls and signatures kept, with the last usage and finish reason.

        Raises:
            ModelConfigurationError: no key, no project, or a setting that the client refuses.
            ModelServiceError: the service refused, or was not reached, after all retries.
            ModelResponseError: the stream was cut off, or what came is no answer.
        """
        model = request.model or self.model
        client = await self._client(model)
        with _our_errors(model):
            async with aclosing(self._answers(client, request, model, stream)) as answers:
                async for response in _streamed(answers, model) if stream else _unary(answers, model):
                    yield response

    def once(self) -> Gemini:
        """The same model, with the same connections, that makes no call again: for whoever does so himself."""
        other = copy(self)
        other._connections = self._connections
        other._backoff = msgspec.structs.replace(self._backoff, retries=0)
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
            self._forget_closed_loops()
            connection = self._connections[loop] = _Connection()
        async with connection.making:
            if connection.client is None:
                if (missing := self.missing_configuration()) is not None:
                    raise ModelConfigurationError(model, missing)
                # Loading the SDK and its certificates takes 0.6 s, in which other agents of this process shall live on.
                connection.client = await asyncio.to_thread(self._new_client, model)
        return connection.client

    def _forget_closed_loops(self) -> None:
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

    async def _answers(
        self, client: Client, request: LlmRequest, model: str, stream: bool
    ) -> AsyncGenerator[types.GenerateContentResponse, None]:
        """What the service sends, from the first attempt that gets anything."""
        from google.genai.errors import APIError

        from runtime.models.genai_types import generate_config

        config = generate_config(request, model=model, vertex=client.vertexai)
        failures: tuple[type[Exception], ...] = (APIError, *connection_errors())
        attempt, last = 0, None
        while True:
            try:
                async with aclosing(_attempt(client, model, config, stream)) as answers:
                    async for last in answers:
                        yield last
                if last is None:
                    raise ConnectionError("the answer ended before it began")
                return
            except failures as error:
                if last is not None:
                    if _has_ended(last):
                        return
                    raise _broken_off(model, error) from error
                attempt += 1
                if (delay_s := self._delay_s(attempt, error)) is None:
                    raise
            await asyncio.sleep(delay_s)

    def _delay_s(self, attempt: int, error: Exception) -> float | None:
        from google.genai.errors import APIError

        if not isinstance(error, APIError):
            return self._backoff.delay_s(attempt, None)
        if error.code not in RETRYABLE:
            return None
        return self._backoff.delay_s(attempt, _advised_s(error))


def _advised_s(error: APIError) -> float | None:
    return advised_delay_s(getattr(error.response, "headers", None), error.details)


class _Connection:
    """The client of one event loop, and the lock under which it is made."""

    def __init__(self) -> None:
        self.making = asyncio.Lock()
        self.client: Client | None = None


async def _attempt(client: Client, model: str, config: Any, stream: bool) -> AsyncGenerator[types.GenerateContentResponse, None]:
    """Ask the service once; without `stream` the answer comes as one piece."""
    from google.genai.errors import UnknownApiResponseError

    models = client.aio.models
    try:
        if not stream:
            yield await models.generate_content(model=model, contents=_STAND_IN, config=config)
            return
        chunks = await models.generate_content_stream(model=model, contents=_STAND_IN, config=config)
        try:
            async for chunk in chunks:
                yield chunk
        except GeneratorExit:
            await _let_go(chunks)
            raise
    except (AttributeError, TypeError) as error:  # what the client raises on JSON of another shape
        raise UnknownApiResponseError(f"JSON of an unknown shape ({error})") from error


async def _let_go(chunks: AsyncIterator[Any]) -> None:
    """Free the connection of a stream that nobody reads on.

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


def _has_ended(answer: types.GenerateContentResponse) -> bool:
    return any(candidate.finish_reason is not None for candidate in answer.candidates or ())


def _broken_off(model: str, error: Exception) -> ModelResponseError:
    return ModelResponseError(model, f"the stream broke off in the middle ({_shortened(_in_words(error))})")


async def _unary(answers: AsyncIterator[types.GenerateContentResponse], model: str) -> AsyncIterator[LlmResponse]:
    from runtime.models.genai_types import from_response

    async for answer in answers:
        response = from_response(answer)
        if response.content is None and response.finish_reason is None and response.error_code is None:
            raise ModelResponseError(model, "it holds neither a content nor a reason for having none")
        yield response


async def _streamed(answers: AsyncIterator[types.GenerateContentResponse], model: str) -> AsyncIterator[LlmResponse]:
    from runtime.models.genai_types import from_response

    aggregate = Aggregate()
    async for answer in answers:
        piece = from_response(answer)
        aggregate.add(piece)
        if piece.content is not None:
            yield msgspec.structs.replace(piece, partial=True, error_code=None, error_message=None)
    if not aggregate.is_whole():
        raise ModelResponseError(model, "the stream ended before the model did (no finish reason came)")
    yield aggregate.response()


@contextmanager
def _our_errors(model: str) -> Iterator[None]:
    """Errors of the client and its HTTP library as ours, which say which model it was, and hold no key when pickled."""
    from google.genai.errors import APIError, UnknownApiResponseError
    from pydantic import ValidationError

    try:
        yield
    except APIError as error:
        retry_after_s = _advised_s(error)
        advice = () if retry_after_s is None else (retry_after_s,)
        raise ModelServiceError(model, error.code, _shortened(f"{error.status}: {error.message}"), *advice) from error
    except connection_errors() as error:
        raise ModelServiceError(model, None, _in_words(error)) from error
    except (json.JSONDecodeError, UnknownApiResponseError, ValidationError) as error:
        raise ModelResponseError(model, _shortened(str(error))) from error
    except ValueError as error:
        raise ModelConfigurationError(model, str(error)) from error


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _shortened(text: str, limit: int = 500) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
