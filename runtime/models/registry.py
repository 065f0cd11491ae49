"""Which model a name means. An immutable table: models of other makers are passed as objects, not registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from actors.errors import UnknownModelError
from actors.errors.suggestions import did_you_mean
from actors.interfaces.model import Model
from runtime.models.gemini import Gemini


def _gemini(name: str) -> Model:
    return Gemini(model=name)


FACTORIES: Mapping[str, Callable[[str], Model]] = MappingProxyType(
    {
        "gemini-": _gemini,
        "models/": _gemini,
        "tunedModels/": _gemini,
        "projects/": _gemini,
    }
)
"""How names begin, and what makes the model of such a name. `projects/…` are resource names of Vertex AI."""


def resolve(agent: str, model: str | Model) -> Model:
    """The model that an agent's `model` means.

    Args:
        agent: the agent's name, for the error.
        model: a name that begins as the table says, or any object with `generate`, which is handed back as it is.

    Returns:
        A model. One made from a name is new with each call: keep it, its client is worth sharing.

    Raises:
        UnknownModelError: the name begins differently, or the object cannot generate.
    """
    if not isinstance(model, str):
        if isinstance(model, Model):
            return model
        raise UnknownModelError(agent, type(model).__name__, f"It has no `generate`. {_what_is_right()}")
    for prefix, factory in FACTORIES.items():
        if model.startswith(prefix):
            return factory(model)
    raise UnknownModelError(agent, model, _what_is_right() + _nearest_prefix(model))


def missing(model: str | Model) -> str | None:
    """What is missing to use a model in this process and how to give it; None if nothing.

    Loads no model SDK and connects to nothing. A model object may have `missing_configuration() -> str | None` to be asked.

    Raises:
        UnknownModelError: as `resolve`.
    """
    ask: Callable[[], str | None] | None = getattr(resolve("", model), "missing_configuration", None)
    return ask() if ask is not None else None


def _what_is_right() -> str:
    *others, last = (f"'{prefix}…'" for prefix in FACTORIES)
    return (
        f"Known names begin with {', '.join(others)} or {last}; for any other model pass an object with "
        "`generate(request, *, stream)`, an async generator of LlmResponse."
    )


def _nearest_prefix(model: str) -> str:
    beginnings = {prefix[:-1]: prefix for prefix in FACTORIES}
    return did_you_mean(model.replace("/", "-").partition("-")[0], beginnings)
