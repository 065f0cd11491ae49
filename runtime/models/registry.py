"""Models by name: an immutable table, and the models of one process. Programs pass their own as objects, and register none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType

from actors.errors import UnknownModelError
from actors.errors.hints import did_you_mean
from actors.interfaces.model import Model
from runtime.models.gemini import Gemini
from runtime.models.openai.services import SERVICES

Check = Callable[[], str | None]
"""Says what the process in which it is called lacks to use a model, and how to give it; None if nothing. It can be pickled."""


def _gemini(name: str) -> Model:
    return Gemini(model=name)


def _openai(name: str) -> Model:
    from runtime.models.openai import OpenAIModel

    return OpenAIModel(name)


def _anthropic(name: str) -> Model:
    from runtime.models.anthropic import AnthropicModel

    return AnthropicModel(name)


FACTORIES: Mapping[str, Callable[[str], Model]] = MappingProxyType(
    {
        "gemini-": _gemini,
        "models/": _gemini,
        "tunedModels/": _gemini,
        "projects/": _gemini,
        **{f"{service}/": _openai for service in SERVICES},
        "anthropic/": _anthropic,
    }
)
"""Factories of models by the beginning of a name. `projects/…` are resource names of Vertex AI."""

_MAKERS = {"gpt-": "openai", "chatgpt-": "openai", "claude-": "anthropic", "deepseek-": "deepseek", "grok-": "xai"}
"""Beginnings of names that say whose model it is."""


def resolve(agent: str, model: str | Model) -> Model:
    """The model that an agent's `model` names, or is.

    Args:
        agent: the agent's name, for the error.
        model: a name with a beginning in FACTORIES, or any object with `generate`, which is returned as it is.

    Returns:
        A model. A name gives a new one with each call: keep it, so that its client is shared.

    Raises:
        UnknownModelError: the name begins differently, or the object cannot generate.
    """
    if not isinstance(model, str):
        # The first takes a hundredth of the time: a tree may have a hundred thousand models.
        if callable(getattr(type(model), "generate", None)) or isinstance(model, Model):
            return model
        raise UnknownModelError(agent, type(model).__name__, f"It has no `generate`. {_known_names()}")
    for prefix, factory in FACTORIES.items():
        if model.startswith(prefix):
            return factory(model)
    raise UnknownModelError(agent, model, _known_names() + _nearest_prefix(model))


def missing(model: str | Model) -> str | None:
    """The package or key that this process lacks to use a model, and how to give it; None if nothing.

    Loads no model SDK and connects to nothing. Asks the model's method `missing_configuration() -> str | None`, if it has one.

    Raises:
        UnknownModelError: as `resolve`.
    """
    ask: Callable[[], str | None] | None = getattr(resolve("", model), "missing_configuration", None)
    return ask() if ask is not None else None


def check_of(model: str | Model) -> Check | None:
    """The check that asks the same as `missing` in another process, without code of users; None: only the model itself knows.

    Asks the model's method `configuration_check() -> Check | None`, if it has one.
    """
    if isinstance(model, str):
        return partial(missing, model)
    ask: Callable[[], Check | None] | None = getattr(model, "configuration_check", None)
    return ask() if ask is not None else None


def sdks(model: str | Model) -> tuple[str, ...]:
    """The modules that take long to load and that a model loads at its first call. Raises UnknownModelError."""
    found = resolve("", model)
    several: tuple[str, ...] = getattr(found, "sdks", ())
    one = getattr(found, "sdk", "")
    return several or ((one,) if one else ())


def is_usable(name: str) -> bool:
    """True for a name that is known here, and whose package is installed."""
    return any(name.startswith(prefix) for prefix in FACTORIES) and all(find_spec(sdk) for sdk in sdks(name))


def _known_names() -> str:
    *others, last = (f"'{prefix}…'" for prefix in FACTORIES)
    return (
        f"Known names begin with {', '.join(others)} or {last}; for any other model pass an object with "
        "`generate(request, *, stream)`, an async generator of LlmResponse."
    )


def _nearest_prefix(model: str) -> str:
    for beginning, maker in _MAKERS.items():
        if model.startswith(beginning):
            return f" Did you mean '{maker}/{model}'?"
    beginnings = {prefix[:-1]: prefix for prefix in FACTORIES}
    return did_you_mean(model.replace("/", "-").partition("-")[0], beginnings)


class ModelPool:
    """The models of one event loop: agents that name the same one share one object, and so its connections."""

    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}
        self._objects: dict[int, Model] = {}

    def resolve(self, agent: str, model: str | Model) -> Model:
        """The model that an agent's `model` names, or is. Raises UnknownModelError."""
        if not isinstance(model, str):
            return self._objects.setdefault(id(model), resolve(agent, model))
        if model not in self._by_name:
            self._by_name[model] = resolve(agent, model)
        return self._by_name[model]

    def waiting(self) -> int:
        """The number of calls of this event loop that have no connection yet. Models that do not say are left out."""
        return sum(getattr(model, "waiting", 0) for model in self._all())

    async def aclose(self) -> None:
        """Close the connections of this event loop over which no call is under way."""
        for model in self._all():
            close: Callable[[], Awaitable[None]] | None = getattr(model, "close_idle", None)
            if close is not None:
                await close()

    def _all(self) -> tuple[Model, ...]:
        return (*self._by_name.values(), *self._objects.values())
