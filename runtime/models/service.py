"""The base of models behind the clients of their services: connections, repetitions, errors and whole answers.

A subclass says how to connect, and how to make one call. Gemini, OpenAIModel and AnthropicModel are such subclasses.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from copy import copy
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from actors.errors import ModelConfigurationError, ModelError, ModelServiceError
from actors.interfaces.model import note_attempt
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.failures import Pauses, RetryPolicy, in_words, own_error
from runtime.models.streaming import Attempt

if TYPE_CHECKING:
    from runtime.models.http import ModelConnections

Client = TypeVar("Client")
Self = TypeVar("Self", bound="ServiceModel[Any]")

_opened_for: ContextVar[asyncio.AbstractEventLoop] = ContextVar("raygrove_opened_for")
"""The event loop for which a client is made, in the thread that makes it."""


class ServiceModel(ABC, Generic[Client]):
    """A model behind the client of its service.

    One object serves any number of calls at once, from any event loop. Each loop has a client of its own, which is made at the
    first call and never pickled.

    Args:
        model: the model's name, as the service takes it; `LlmRequest.model` overrides it.
        api_key: the key; without it the environment of the process has it, under one of `key_variables`.
        retries: how often a call is repeated after statuses 429, 500, 502, 503, 504, 529, lost connections and answers that were
            cut off, as long as no part of the response was shown.
        timeout_s: a service that is silent for this long counts as lost. None waits as long as the connection lives.
        retry_initial_delay_s: seconds before the first repetition, doubled for each further one, with jitter. With a Retry-After
            of the service no call of this process is made before it is over, and repetitions spread over that time after it.

    Attributes:
        key_variables: environment variables, of which one must hold a key. Without any the service needs none.
        sdk: the module that `connect` imports, which takes long to load; "" without one.
        extra: what `pip install` needs for that module.
        names_its_end: the last piece of each answer has a finish reason, so that an answer without one was cut off.
        notes_attempts: it tells of each try: see `actors.interfaces.model.Model`.
    """

    key_variables: tuple[str, ...] = ()
    sdk: ClassVar[str] = ""
    extra: ClassVar[str] = ""
    names_its_end: ClassVar[bool] = False
    notes_attempts: ClassVar[bool] = True

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None = None,
        retries: int = 4,
        timeout_s: float | None = None,
        retry_initial_delay_s: float = 1.0,
    ) -> None:
        self.model = model
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._retries = RetryPolicy(retries=retries, initial_delay_s=retry_initial_delay_s)
        self._connections: dict[asyncio.AbstractEventLoop, _Connection[Client]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_connections"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _connections={})

    @abstractmethod
    def connect(self) -> Client:
        """Make a client. It is called in a thread, at the first call of each event loop, where the agent lives.

        Raises:
            ValueError: what the client is given is wrong; it becomes a ModelConfigurationError.
        """

    def connections(self, url: str) -> ModelConnections:
        """Connections to a URL by aiohttp, for the client that `connect` is about to make. They are closed with it.

        Calls that wait for one are counted: see `waiting`.
        """
        from runtime.models.http import ModelConnections

        loop = _opened_for.get()
        connections = self._connections[loop].http = ModelConnections(url, loop)
        return connections

    @property
    def waiting(self) -> int:
        """The number of calls of the running event loop that have no connection yet, as far as `connections` makes them."""
        connection = self._connections.get(asyncio.get_running_loop())
        return connection.http.waiting if connection is not None and connection.http is not None else 0

    @abstractmethod
    def call(self, client: Client, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Make one call, without repeating it: an async generator.

        Args:
            request: everything that the model is to see. `request.model` is the name to ask for.
            stream: what is yielded is shown as it comes, so yield it in pieces.

        Yields:
            The response in any number of pieces, each only what is new. Texts are joined. The last finish reason, usage and error
            code count. `partial` is set by the caller.

        Raises:
            Exception: what the client raises: see `failure`.
        """

    def failure(self, model: str, error: Exception) -> ModelError | None:
        """The failure that an exception of `call` stands for; None for one that is raised as it is.

        Errors with a `status_code`, or with a `response` that has one, and lost connections are understood. A ModelServiceError
        with no code, or one that may be gone the next time, is what makes a call be repeated.
        """
        return own_error(model, error)

    def endpoint(self, client: Client) -> str:
        """Where a client sends its calls, without keys: by its attribute `base_url`; "" if it has none."""
        return plain_url(str(getattr(client, "base_url", "")))

    def missing_configuration(self) -> str | None:
        """The package or key that this process lacks to use the model, and how to give it; None if nothing.

        Looks at the arguments and the environment only, and loads nothing.
        """
        return _lacks(self.sdk, self.extra, () if self.key() else self.key_variables)

    def configuration_check(self) -> Callable[[], str | None] | None:
        """Asks the same as `missing_configuration`, in another process and without the model; None: only the model knows.

        It can be pickled, and holds no key and no code of users.
        """
        own = type(self)
        if own.missing_configuration is not ServiceModel.missing_configuration or own.key is not ServiceModel.key:
            return None
        return partial(_lacks, self.sdk, self.extra, () if self._api_key else self.key_variables)

    def key(self) -> str | None:
        """The API key: the one that was given, or the first in the environment; None without any."""
        return self._api_key or next((key for name in self.key_variables if (key := os.environ.get(name))), None)

    def once(self: Self) -> Self:
        """The same model on the same connections without retries, for callers that repeat calls themselves."""
        other = copy(self)
        other._connections = self._connections
        other._retries = msgspec.structs.replace(self._retries, retries=0)
        return other

    async def disconnect(self, client: Client) -> None:
        """Close a client: by its method `aclose` or `close`, if it has one."""
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing

    async def aclose(self) -> None:
        """Close the client of the running event loop. The next call makes a new one."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None and connection.client is not None:
            await self.disconnect(connection.client)
            if connection.http is not None:
                await connection.http.aclose()

    async def close_idle(self) -> None:
        """Close the client of the running event loop unless a call is under way."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None and not connection.calls:
            await self.aclose()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Ask once.

        Args:
            stream: yield each piece as it arrives, marked `partial`, before the whole.

        Yields:
            The partial responses if `stream`, then exactly one whole response: texts joined, thoughts apart from other
            text, calls and signatures kept, with the last usage and finish reason.

        Raises:
            ModelConfigurationError: no key, no package, or a setting that the client refuses.
            ModelServiceError: the service refused, or was not reached, or its answer was cut off, after all retries.
            ModelResponseError: the stream was cut off after a part of it was shown, or the response has no valid form.
        """
        model = request.model or self.model
        loop, connection = asyncio.get_running_loop(), self._connection()
        client = await self._client(connection, model)
        connection.calls += 1
        try:
            for number in count(1):
                if (wait_s := connection.pauses.wait_s(model, loop.time(), self._retries)) > 0:
                    await asyncio.sleep(wait_s)
                attempt = Attempt(model, is_shown=stream, names_its_end=self.names_its_end)
                noted = note_attempt(model, self.endpoint(client))
                try:
                    async with aclosing(_generator(self.call(client, request, stream=stream))) as pieces:
                        async for piece in pieces:
                            if (partial := attempt.add(piece)) is not None:
                                yield partial
                    attempt.check_end()
                    break
                except Exception as error:
                    # The client of a service may raise anything: only its subclass here knows what that means.
                    failure = error if isinstance(error, ModelError) else self.failure(model, error)
                    if attempt.is_whole_despite(failure):
                        break
                    noted.failed(failure or error)
                    if isinstance(failure, ModelServiceError) and failure.retry_after_s:
                        connection.pauses.refused(model, loop.time(), failure.retry_after_s)
                    delay_s = attempt.delay_s(self._retries, number, failure)
                    if delay_s is None:
                        raise attempt.error(error, failure) from error
                await asyncio.sleep(delay_s)
        finally:
            connection.calls -= 1
        yield attempt.response()

    def _connection(self) -> _Connection[Client]:
        loop = asyncio.get_running_loop()
        if (connection := self._connections.get(loop)) is None:
            _drop_closed_loops(self._connections)
            connection = self._connections[loop] = _Connection()
        return connection

    async def _client(self, connection: _Connection[Client], model: str) -> Client:
        async with connection.lock:
            if connection.client is None:
                if (missing := self.missing_configuration()) is not None:
                    raise ModelConfigurationError(model, missing)
                _opened_for.set(asyncio.get_running_loop())
                # In a thread: loading an SDK and its certificates takes 0.6 s, and other agents of this process go on.
                connection.client = await asyncio.to_thread(self._new_client, model)
        return connection.client

    def _new_client(self, model: str) -> Client:
        try:
            return self.connect()
        except ValueError as error:
            raise ModelConfigurationError(model, in_words(error)) from error


class _Connection(Generic[Client]):
    """The client of one event loop: its connections, the lock under which it is made, its calls, and when its service rests."""

    def __init__(self) -> None:
        self.calls = 0
        self.lock = asyncio.Lock()
        self.client: Client | None = None
        self.http: ModelConnections | None = None
        self.pauses = Pauses()


def without_user(url: str) -> tuple[str, dict[str, str]]:
    """A URL without its user and password, and the header that says them instead: clients write URLs into the log."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return url, {}
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def plain_url(url: str) -> str:
    """A URL without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else ""


def _lacks(sdk: str, extra: str, key_variables: Sequence[str]) -> str | None:
    """Tell what this process lacks: a package, or a key where one of some variables must hold it."""
    if sdk and find_spec(sdk) is None:
        return f"the package {sdk} is not installed: pip install {extra!r} where the agents run"
    if key_variables and not any(map(os.environ.get, key_variables)):
        return f"there is no API key: set {' or '.join(key_variables)} where the agents run, or pass api_key=…"
    return None


def _drop_closed_loops(connections: dict[asyncio.AbstractEventLoop, _Connection[Any]]) -> None:
    for loop in [loop for loop in connections if loop.is_closed()]:
        del connections[loop]


async def _generator(pieces: AsyncIterator[LlmResponse]) -> AsyncGenerator[LlmResponse, None]:
    """The pieces as a generator, so that what makes them is closed with it, whatever kind of iterator it is."""
    try:
        async for piece in pieces:
            yield piece
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
