"""The interface of language models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from actors.messages.model import LlmRequest, LlmResponse


@runtime_checkable
class Model(Protocol):
    """A language model. One object serves many sessions at once and must be safe for that.

    A model that retries failed calls by itself should have a method `once() -> Model`, which returns the same model without
    retries: where a deployment limits a model's calls, it counts retries too, and makes them itself.
    """

    def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Make one call.

        Args:
            request: everything that the model gets.
            stream: yield parts of the response as they come, each with `partial`, before the complete response.

        Yields:
            Any number of partial responses if `stream`, then exactly one complete response. A model that has
            nothing to say yields a response without content.

        Raises:
            Exception: whatever the model's client raises; unless a callback replaces it, it fails the agent's run.
        """
        ...


def name_of(model: str | Model) -> str:
    """The name by which a model's limits are found: the name itself; for an object its `name`, its `model`, or its class name."""
    if isinstance(model, str):
        return model
    names = (getattr(model, attribute, None) for attribute in ("name", "model"))
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)


class SharedModel(Model, Protocol):
    """A model with a state that all agents share, in whatever process they run.

    An engine that copies definitions to other processes keeps one live copy of the model, sends every request to it, and copies
    its state back to the original object with `adopt`.
    """

    def state(self) -> bytes:
        """The state of the live copy."""
        ...

    def adopt(self, state: bytes) -> None:
        """Take over the state of the live copy."""
        ...
