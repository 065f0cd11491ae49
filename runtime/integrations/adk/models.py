"""Models of google-adk as raygrove's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
from google.adk.models.registry import LLMRegistry

from actors.messages.content import Content
from actors.messages.llm.model import LlmRequest, LlmResponse
from runtime.integrations.adk.contents import own_response
from runtime.integrations.adk.requests import RequestView
from runtime.models import registry


def _told(whole: LlmResponse, *, stream: bool) -> LlmResponse:
    """A complete response, with the error code that ADK gives one that ends without saying anything but thoughts."""
    if whole.error_code or whole.finish_reason != "STOP" or (stream and whole.content is None) or _says_something(whole.content):
        return whole
    said = "The model returned no content (finish_reason=STOP with empty parts)."
    if whole.content is not None:
        said = "The model returned no actionable content (finish_reason=STOP with thought-only or whitespace-only parts)."
    return msgspec.structs.replace(whole, error_code="MODEL_RETURNED_NO_CONTENT", error_message=whole.error_message or said)


def _says_something(content: Content | None) -> bool:
    parts = content.parts if content is not None else ()
    return any(not part.carries_only_text() or (part.text and part.text.strip() and not part.thought) for part in parts)


class AdkModel:
    """A BaseLlm as a model, LiteLlm and Claude among them.

    Args:
        adk: the BaseLlm.
        schema: the `output_schema` of the agent that has it.
    """

    def __init__(self, adk: Any, schema: Any = None) -> None:
        self.model = adk.model
        self._adk = adk
        self._schema = schema

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Make one call."""
        theirs = RequestView(request, schema=self._schema).adk
        theirs.model = theirs.model or self.model
        theirs.contents = list(theirs.contents)
        if request.agent:
            # ADK has it in the requests of all agents, for bills of Vertex AI.
            theirs.config.labels = {"adk_agent_name": request.agent, **(theirs.config.labels or {})}
        self.prepare(theirs)
        whole: LlmResponse | None = None
        async with aclosing(self._adk.generate_content_async(theirs, stream=stream)) as responses:
            async for response in responses:
                if response.partial:
                    yield own_response(response)
                else:
                    self.note(response)
                    # Some models of ADK end with a response that says only that the turn is over.
                    given = own_response(response)
                    whole = given if whole is None or given.content is not None else whole
        whole = whole or LlmResponse()
        yield _told(whole, stream=stream)

    def prepare(self, request: Any) -> None:
        """Complete a request of ADK, before the model gets it; for subclasses."""

    def note(self, response: Any) -> None:
        """Take in a complete response of ADK; for subclasses."""


def own_model(given: Any, schema: Any = None) -> Any:
    """The model that raygrove takes: a name that it knows, an object, or "" for that of the nearest agent above.

    Args:
        schema: the `output_schema` of the agent that has it.
    """
    if not isinstance(given, str):
        return AdkModel(given, schema)
    if not given or registry.is_usable(given):
        return given
    return AdkModel(LLMRegistry.new_llm(given), schema)
