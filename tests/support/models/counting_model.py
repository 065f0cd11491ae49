"""A model that counts how often it was asked, in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

from actors import LlmRequest, LlmResponse, Model


class CountingModel:
    """Another model, for the local engine.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, model: Model, name: str = "counting") -> None:
        self._model = model
        self.name = name
        self.calls = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the responses of the other model."""
        self.calls += 1
        async for response in self._model.generate(request, stream=stream):
            yield response
