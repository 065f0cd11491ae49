"""The seam to language models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from actors.messages.model import LlmRequest, LlmResponse


@runtime_checkable
class Model(Protocol):
    """Something that answers. One object serves many sessions at once and must be safe for that."""

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
