"""The seam to language models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from actors.messages.model import LlmRequest, LlmResponse


@runtime_checkable
class Model(Protocol):
    """Something that answers. One object serves many sessions at once and must be safe for that.

    A model that makes calls again by itself when they fail should have a method `once() -> Model`, which gives the same without
    that: where calls are limited, repetitions are, too, and are made by who counts them.
    """

    def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Ask once.

        Args:
            request: everything the model is to see.
            stream: yield the answer in pieces as they come, each `partial`, before the whole.

        Yields:
            Any number of partial responses if `stream`, then exactly one complete response. A model that has
            nothing to say yields a response without content.

        Raises:
            Exception: whatever the model's own client raises; the agent's run fails with it.
        """
        ...


def name_of(model: str | Model) -> str:
    """What a model is called where models are limited: its name; of an object its `name`, its `model`, or that of its class."""
    if isinstance(model, str):
        return model
    names = (getattr(model, attribute, None) for attribute in ("name", "model"))
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)


class SharedModel(Model, Protocol):
    """A model with a state of its own that must be one for all agents that hold the object, wherever they run.

    An engine that copies definitions to other processes keeps one living copy, sends every request there, and brings
    the state home with `adopt`.
    """

    def state(self) -> bytes:
        """What the living copy has become."""
        ...

    def adopt(self, state: bytes) -> None:
        """Take over what the living copy has become."""
        ...
