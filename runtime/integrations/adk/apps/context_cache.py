"""The context cache of an App of google-adk: models keep what requests have in common at their service, and say where.

ADK looks for the newest cache of an agent in the session's events. Here the process of the agent remembers it: one that is lost
has the service make another cache, which costs no more than the first one did.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from google.adk.models.registry import LLMRegistry

from actors.interfaces.run_facts import current_run
from actors.rules.capacity.eviction import LruDict
from runtime.integrations.adk.models import AdkModel, own_model
from runtime.models import registry

MAX_SESSIONS = 10_000
"""Of so many sessions a process remembers the caches."""


class _Cached(NamedTuple):
    """What the newest response of an agent in a session says: the cache, the turn, and the tokens of the prompt."""

    metadata: Any
    invocation_id: str
    tokens: int | None


class CachingModel(AdkModel):
    """A BaseLlm that is given the settings of the cache, and the newest cache of the agent.

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
