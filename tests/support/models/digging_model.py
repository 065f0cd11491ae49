"""A model that works on tasks of flows."""

from __future__ import annotations

from collections.abc import AsyncIterator

from actors import FunctionCall, LlmRequest, LlmResponse
from actors.messages.content import Content, Part


class DiggingModel:
    """A stateless model: it calls `dig` first, then finishes the first of its tasks, and names its tasks with both."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        last = next(request.contents[-1].function_responses(), None)
        finishes = [tool.name for tool in request.tools if tool.name.startswith("succeed_")]
        finish, said = finishes[0], " ".join(f"<{request.agent}:{name}>" for name in finishes)
        if last is not None and last.name == "dig":
            made = FunctionCall(name=finish, args={"result": f"{finish} by {request.agent}"})
        else:
            made = FunctionCall(name="dig")
        yield LlmResponse(content=Content(role="model", parts=[Part(text=said), Part(function_call=made)]))
