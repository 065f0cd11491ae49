"""The compaction of an App of google-adk as raygrove's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer as AdkLlmEventSummarizer

from actors.errors import DefinitionError
from actors.layers.compaction.definitions import HISTORY, EventsCompactionConfig, LlmEventSummarizer
from actors.messages.content import Content
from actors.messages.event import Event
from runtime.integrations.adk.contents import adk_event, own_content
from runtime.integrations.adk.models import own_model


@dataclass(frozen=True)
class PromptedSummarizer(LlmEventSummarizer):
    """An LlmEventSummarizer of ADK: its prompt is ADK's own.

    Args:
        adk: the summarizer.
    """

    adk: Any = field(default=None)

    def prompt(self, events: Sequence[Event]) -> str:
        """The text that ADK's summarizer asks its model."""
        history = self.adk._format_events_for_prompt([adk_event(event) for event in events])
        return cast(str, self.adk._prompt_template.format(conversation_history=history))


class OwnSummarizer:
    """A subclass of BaseEventsSummarizer, as a function of events."""

    def __init__(self, adk: Any) -> None:
        self._adk = adk

    async def __call__(self, events: Sequence[Event]) -> Content | None:
        """Have it summarise; None if it does not. What its event says of times is left out: the summary covers the events."""
        made = await self._adk.maybe_summarize_events(events=[adk_event(event) for event in events])
        compaction = made.actions.compaction if made is not None and made.actions is not None else None
        return own_content(compaction.compacted_content) if compaction is not None else None


def own_compaction(config: Any, root: Any) -> EventsCompactionConfig:
    """The settings of an App. Raises DefinitionError where ADK has no model for the summaries."""
    given = config.summarizer
    if given is None:
        if not isinstance(root, LlmAgent):
            raise DefinitionError(
                "events_compaction_config of an App whose root agent is no LlmAgent needs a summarizer, as in ADK"
            )
        given = AdkLlmEventSummarizer(llm=root.canonical_model)
    numbers = {
        name: getattr(config, name) for name in ("compaction_interval", "overlap_size", "token_threshold", "event_retention_size")
    }
    if type(given) is not AdkLlmEventSummarizer:
        return EventsCompactionConfig(summarizer=OwnSummarizer(given), **numbers)
    summarizer = PromptedSummarizer(model=own_model(given._llm), prompt_template=HISTORY, adk=given)
    return EventsCompactionConfig(summarizer=summarizer, **numbers)
