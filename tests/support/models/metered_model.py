"""A model whose service says how many tokens it has used."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from actors import LlmRequest, LlmResponse, Model, Usage


def tokens_of(request: LlmRequest) -> Usage:
    """The tokens of a call: one for each part of the request, so that the same request costs the same."""
    parts = sum(len(content.parts) for content in request.contents)
    return Usage(
        prompt_token_count=10 * parts, cached_content_token_count=parts, candidates_token_count=3, thoughts_token_count=2
    )


class MeteredModel:
    """Another model, with the tokens of each call."""

    def __init__(self, model: Model, name: str = "metered") -> None:
        self._model = model
        self.name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the responses of the other model."""
        async for response in self._model.generate(request, stream=stream):
            yield response if response.partial else msgspec.structs.replace(response, usage=tokens_of(request))
