"""Several models as one: when the first does not answer, the next is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from copy import copy
from functools import partial

import msgspec

from actors.errors import DefinitionError, ModelConfigurationError, ModelResponseError
from actors.interfaces.model import Model, Responses, definition_flaw, name_of
from actors.layers.limiter.rate_limiter import failed_attempt
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models import registry

OUT_OF_CREDIT = 402
"""The status of a service whose customer has used up what was paid for."""


class FallbackModel:
    """Asks the first of several models, and goes on with the next when it is down or over its limit.

    It goes on after lost connections, time limits, answers that were cut off or malformed, and the statuses 402, 429, 500, 502,
    503, 504 and 529; not after others, such as that of a wrong key. Once a piece of an answer was streamed, the answer is not
    begun again by another model: the call fails as it would without this one.

    Args:
        models: at least two, the first choice first, as names or objects. All but the last are asked once if they are names;
            objects repeat calls as they were told to.
        name: for statistics; by default made of the models' names. Limits hold for each of the models by its own name.

    Raises:
        DefinitionError: there are fewer than two models, or one of them is none.
        UnknownModelError: no model is known by one of the names.
    """

    notes_attempts = True

    def __init__(self, models: Sequence[str | Model], *, name: str | None = None) -> None:
        if isinstance(models, str) or len(models) < 2:
            raise DefinitionError(f"FallbackModel takes a list of at least two models, not {models!r}")
        for model in models:
            if not isinstance(model, str) and (flaw := definition_flaw(model)) is not None:
                raise DefinitionError(f"a model of FallbackModel {flaw}")
        self.name = name or " or ".join(map(name_of, models))
        last = len(models) - 1
        self._names = [name_of(model) for model in models]
        self._repeats = [index == last or not isinstance(model, str) for index, model in enumerate(models)]
        resolved = [registry.resolve("", model) for model in models]
        self._models = [model if repeats else _once(model) for model, repeats in zip(resolved, self._repeats, strict=True)]

    def __repr__(self) -> str:
        return f"FallbackModel({self._names!r})"

    def through(self, wrap: Callable[[Model, bool], Model]) -> FallbackModel:
        """The same with each of its models wrapped: so each waits for permits of its own.

        Args:
            wrap: takes a model, and whether its failed calls may be repeated.
        """
        other = copy(self)
        other._models = [wrap(model, repeats) for model, repeats in zip(self._models, self._repeats, strict=True)]
        return other

    def once(self) -> FallbackModel:
        """The same with models that do not repeat calls by themselves."""
        return self.through(lambda model, _: _once(model))

    def missing_configuration(self) -> str | None:
        """The package or key that this process lacks to use one of the models; None if nothing."""
        return _lacks([(name, partial(registry.missing, model)) for name, model in zip(self._names, self._models, strict=True)])

    def configuration_check(self) -> registry.Check | None:
        """Asks the same in another process and without the models, as far as they can be asked so."""
        checks = [(name, registry.check_of(model)) for name, model in zip(self._names, self._models, strict=True)]
        return partial(_lacks, [(name, check) for name, check in checks if check is not None])

    async def close_idle(self) -> None:
        """Close the connections of this event loop over which no call is under way."""
        for model in self._models:
            close: Callable[[], Awaitable[None]] | None = getattr(model, "close_idle", None)
            if close is not None:
                await close()

    @property
    def waiting(self) -> int:
        """The number of calls of the running event loop that have no connection yet."""
        return sum(getattr(model, "waiting", 0) for model in self._models)

    @property
    def sdks(self) -> tuple[str, ...]:
        """The modules that its models load."""
        return tuple(dict.fromkeys(sdk for model in self._models for sdk in registry.sdks(model)))

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Ask one model after the other until one answers: see Model.

        Raises:
            ModelConfigurationError: a model cannot be used in this process, even if it is not its turn.
            Exception: what the last model that was asked raises.
        """
        if (missing := self.missing_configuration()) is not None:
            raise ModelConfigurationError(self.name, missing)
        for index, model in enumerate(self._models):
            has_begun = False
            asked = copy(request)
            asked.model = self._names[index]
            try:
                async with Responses(model, asked, stream=stream) as responses:
                    async for response in responses:
                        has_begun = True
                        yield _named(response, self._names[index])
                return
            except Exception as error:
                # A model's client may raise anything: whether another model may help follows from types and attributes.
                if has_begun or index == len(self._models) - 1 or not _may_help(error):
                    raise


def _once(model: Model) -> Model:
    once: Callable[[], Model] | None = getattr(model, "once", None)
    return once() if once is not None else model


def _named(response: LlmResponse, model: str) -> LlmResponse:
    """The response with the name of the model that it comes from. What is no response is refused elsewhere."""
    if not isinstance(response, LlmResponse) or response.partial or response.model_version:
        return response
    return msgspec.structs.replace(response, model_version=model)


def _may_help(error: Exception) -> bool:
    status = getattr(error, "code", None) or getattr(error, "status_code", None)
    return failed_attempt(error, 1) is not None or status == OUT_OF_CREDIT or isinstance(error, ModelResponseError)


def _lacks(checks: Sequence[tuple[str, registry.Check]]) -> str | None:
    """Tell what this process lacks for the first of the models that it lacks anything for, by their names."""
    reasons = ((name, check()) for name, check in checks)
    return next((f"{name}: {reason}" for name, reason in reasons if reason is not None), None)
