"""The models of one process: agents that name the same model share one object, and so its connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.interfaces.model import Model
from runtime.models import registry


class ModelPool:
    """Resolves models for the agents of one event loop, and closes their connections at the end."""

    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}
        self._objects: dict[int, Model] = {}

    def resolve(self, agent: str, model: str | Model) -> Model:
        """The model that an agent's `model` names, or is. Raises UnknownModelError."""
        if not isinstance(model, str):
            return self._objects.setdefault(id(model), registry.resolve(agent, model))
        if model not in self._by_name:
            self._by_name[model] = registry.resolve(agent, model)
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
