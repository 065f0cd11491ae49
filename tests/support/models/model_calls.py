"""Calls of models, made by tests as an agent makes them."""

from __future__ import annotations

from actors.interfaces.model import Model
from actors.messages.content import Content
from actors.messages.llm import LlmRequest, LlmResponse

HELLO = LlmRequest(contents=[Content.of_text("hello")])


async def whole(model: Model, request: LlmRequest = HELLO) -> LlmResponse:
    """The one response of a call that is not streamed."""
    [response] = [response async for response in model.generate(request, stream=False)]
    return response


async def streamed(model: Model) -> tuple[list[LlmResponse], LlmResponse]:
    """The partial responses of a streamed call, and the complete one."""
    *partials, last = [response async for response in model.generate(HELLO, stream=True)]
    assert all(response.partial for response in partials)
    assert not last.partial
    return partials, last
