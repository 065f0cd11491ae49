"""Models of google-adk as raygrove's, and the context cache of an App: what requests have in common stays at their service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from google.adk.models.registry import LLMRegistry

from actors.interfaces.telemetry import current_run
from actors.messages.content import Content
from actors.messages.llm import LlmRequest, LlmResponse
from actors.rules.eviction import LruDict
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


MAX_SESSIONS = 10_000
"""Of so many sessions a process remembers the caches."""


class _Cached(NamedTuple):
    """What the newest response of an agent in a session says: the cache, the turn, and the tokens of the prompt."""

    metadata: Any
    invocation_id: str
    tokens: int | None


class CachingModel(AdkModel):
    """A BaseLlm that is given the settings of the cache, and the newest cache of the agent.

    ADK looks for that in the session's events. Here the process of the agent remembers it: one that is lost has the service make
    another cache, which costs no more than the first one did.

    Args:
        adk: the BaseLlm.
        schema: the `output_schema` of the agent that has it.
    """

    def __init__(self, adk: Any, schema: Any, config: Any) -> None:
        super().__init__(adk, schema)
        self._config = config
        self._cached: LruDict[tuple[str, ...], _Cached] = LruDict(MAX_SESSIONS)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cached": LruDict(MAX_SESSIONS)}

    def prepare(self, request: Any) -> None:
        """Give the request the settings, and what is known of the cache."""
        request.cache_config = self._config
        known = self._cached.get(_place())
        if known is None:
            return
        metadata = known.metadata
        if metadata is not None:
            is_again = known.invocation_id != current_run().invocation_id and metadata.cache_name is not None
            more = {"invocations_used": (metadata.invocations_used or 0) + 1} if is_again else {}
            request.cache_metadata = metadata.model_copy(update=more)
        request.cacheable_contents_token_count = known.tokens

    def note(self, response: Any) -> None:
        """Remember the cache that the response was made with."""
        before = self._cached.get(_place())
        tokens = response.usage_metadata.prompt_token_count if response.usage_metadata is not None else None
        if tokens is None and before is not None:
            tokens = before.tokens
        metadata = response.cache_metadata
        if metadata is not None:
            self._cached[_place()] = _Cached(metadata, current_run().invocation_id, tokens)
        elif tokens is not None:
            known = before or _Cached(None, "", None)
            self._cached[_place()] = known._replace(tokens=tokens)


def _place() -> tuple[str, ...]:
    run = current_run()
    return run.app_name, run.user_id, run.session_id, run.agent


def caching_model(given: Any, schema: Any, config: Any) -> tuple[Any, str]:
    """The model with a cache; and the name of the model, if its service is not asked to cache by ADK's settings.

    Args:
        given: as for `own_model`.
    """
    if not isinstance(given, str):
        return CachingModel(given, schema, config), ""
    if given and not (given.startswith("gemini") or not registry.is_usable(given)):
        return own_model(given, schema), given
    return (CachingModel(LLMRegistry.new_llm(given), schema, config) if given else given), ""
