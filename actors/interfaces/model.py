"""The interface of language models, and the tries of their calls, which an agent that is recorded wants to know of.

A context variable holds what collects tries, since models are objects of anybody's making, some of which ask others.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, cast, runtime_checkable

import msgspec

from actors.errors import ModelResponseError
from actors.errors.user_code import error_text
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.log import CallAttempt


@runtime_checkable
class Model(Protocol):
    """A language model. One object serves many sessions at once and must be safe for that.

    A model that retries failed calls by itself should have a method `once() -> Model`, which returns the same model without
    retries: where a deployment limits a model's calls, it counts retries too, and makes them itself. One that passes calls on to
    other models should have a method `through(wrap) -> Model`: the same model with each of the others replaced by `wrap(model,
    may_be_repeated)`, so that each waits for permits of its own. Either may have an attribute `notes_attempts` that is True: then
    it tells of each try by `actors.interfaces.model.note_attempt`, or asks other models by `Responses`, which does so.
    """

    def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Make one call.

        Args:
            request: everything that the model gets.
            stream: yield parts of the response as they come, each with `partial`, before the complete response.

        Yields:
            Any number of partial responses if `stream`, then exactly one complete response, which holds all that the partial
            ones said. A model that has nothing to say yields a response without content.

        Raises:
            Exception: whatever the model's client raises; unless a callback replaces it, it fails the agent's run.
        """
        ...


HOW_TO_GENERATE = "write it as `async def generate(self, request, *, stream)` and `yield` each LlmResponse"


def definition_flaw(model: object) -> str | None:
    """The flaw of an object that is given as a model, as far as it can be seen without a call; None if there is none."""
    if isinstance(model, type):
        return f"must be an object: give {model.__name__}(…), not the class"
    generate = getattr(model, "generate", None)
    if not callable(generate):
        return f"must be a model's name or an object with a generate method, not {type(model).__name__}"
    if inspect.iscoroutinefunction(generate):
        return f"{type(model).__name__}.generate returns its response: {HOW_TO_GENERATE}"
    if inspect.isgeneratorfunction(generate):
        return f"{type(model).__name__}.generate is no async generator: {HOW_TO_GENERATE}"
    return None


class Responses:
    """The responses of one call of a model, as an async context manager that closes the model's generator at its end.

    Raises:
        ModelResponseError: what `generate` returned yields no responses.
    """

    def __init__(self, model: Model, request: LlmRequest, *, stream: bool) -> None:
        generated: object = model.generate(request, stream=stream)
        # What `isinstance(generated, AsyncIterable)` asks, in a tenth of its time.
        if getattr(generated, "__aiter__", None) is None:
            if inspect.iscoroutine(generated):
                generated.close()
            raise ModelResponseError(name_of(model), f"its generate returned a {type(generated).__name__}: {HOW_TO_GENERATE}")
        self._generated = cast("AsyncIterable[LlmResponse]", generated)
        # A model that tries several times, or asks others, tells of each try itself.
        notes_itself = getattr(model, "notes_attempts", False)
        self._attempt = None if notes_itself else note_attempt(request.model or name_of(model))

    async def __aenter__(self) -> AsyncIterable[LlmResponse]:
        return self._generated

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._attempt is not None and isinstance(error, Exception):
            self._attempt.failed(error)
        # Generators have it, other iterators need not. Of one that has come to its end there is nothing to close.
        close: Callable[[], Awaitable[None]] | None = getattr(self._generated, "aclose", None)
        if close is not None and getattr(self._generated, "ag_frame", self) is not None:
            await close()


def name_of(model: str | Model) -> str:
    """The name by which a model's limits are found: the name itself; for an object its `name`, its `model`, or its class name."""
    if isinstance(model, str):
        return model
    for attribute in ("name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


class NotedAttempt:
    """A try that was told, and may be told to have failed.

    Args:
        attempts: what wants to know of it; None: nothing does.
    """

    def __init__(self, attempts: list[CallAttempt] | None, attempt: CallAttempt) -> None:
        self._attempts = attempts
        self._place = len(attempts) if attempts is not None else 0
        if attempts is not None:
            attempts.append(attempt)

    def failed(self, error: BaseException) -> None:
        """Say with which error it has ended."""
        if self._attempts is not None:
            attempt, text = self._attempts[self._place], f"{type(error).__name__}: {error_text(error)}"
            self._attempts[self._place] = msgspec.structs.replace(attempt, error=text)


_current: ContextVar[list[CallAttempt] | None] = ContextVar("raygrove_attempts", default=None)


def note_attempt(model: str, endpoint: str = "") -> NotedAttempt:
    """Tell that a model is about to be asked.

    Args:
        model: its name.
        endpoint: where its service is.
    """
    return NotedAttempt(_current.get(), CallAttempt(model=model, endpoint=endpoint, begun_s=time.time()))


@contextmanager
def noting_attempts() -> Iterator[list[CallAttempt]]:
    """Collect the tries of models within the block, by this task and those that it starts."""
    attempts: list[CallAttempt] = []
    token = _current.set(attempts)
    try:
        yield attempts
    finally:
        _current.reset(token)
