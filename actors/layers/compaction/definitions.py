"""The settings by which conversations are summarised, and the model that does it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import LlmAgent
from actors.errors import DefinitionError
from actors.errors.hints import explains_all_wrong_calls
from actors.interfaces.model import Model, definition_flaw
from actors.layers.compaction.rules import CompactionRule
from actors.messages.content import Content
from actors.messages.event import Event

MAX_CHARACTERS = 2_000
"""The text has so much of a call's arguments, and of its result: they may be larger than all that was said."""

HISTORY = "{conversation_history}"
"""Stands in a template for what is to be summarised."""

DEFAULT_TEMPLATE = (
    "Below is a part of a conversation between a user and an assistant. It may begin with a summary of what came before. Write a "
    "summary that takes its place, for the assistant to go on with. Begin with the language that the user writes. Say what the "
    "user wants, what was decided and found out, and what is still open. Name the tools that were called exactly as they are "
    "called here. Be brief, and leave out nothing that a later answer may depend on.\n\n" + HISTORY
)

SummaryFunction = Callable[[Sequence[Event]], "str | Content | Awaitable[str | Content | None] | None"]
"""Makes a summary of events, oldest first: a text, or a Content; None for no summary now. Sync or async."""


@explains_all_wrong_calls
@dataclass(frozen=True)
class LlmEventSummarizer:
    """Has a model write summaries.

    Args:
        model: its name, or the object; "" is the model of the root agent, without one that of the agent that runs.
        prompt_template: what it is asked; `{conversation_history}` in it stands for what is to be summarised.

    Raises:
        DefinitionError: the model is none, or the template does not name the conversation.
    """

    model: str | Model = ""
    prompt_template: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) and (flaw := definition_flaw(self.model)) is not None:
            raise DefinitionError(f"LlmEventSummarizer: model {flaw}")
        if HISTORY not in self.prompt_template:
            raise DefinitionError(f"LlmEventSummarizer: prompt_template must have {HISTORY} in it, where the conversation stands")

    def prompt(self, events: Sequence[Event]) -> str:
        """The text that the model is asked to summarise, with what it is to do."""
        return self.prompt_template.replace(HISTORY, transcript(events))


@explains_all_wrong_calls
@dataclass(frozen=True, kw_only=True)
class EventsCompactionConfig:
    """When conversations are summarised, so that requests to models stay short. The log keeps every event.

    Before an agent's model is called, what has become too much is summarised by one more model call, whose event is stored in the
    log. From then on requests show the summary in place of the events that it covers.

    Args:
        compaction_interval: so many turns have to have ended since the last summary; None: their number does not matter.
        overlap_size: so many turns before these are summarised once more; goes with `compaction_interval`.
        token_threshold: or the newest prompt has to have had so many tokens; None: that does not matter.
        event_retention_size: so many of the newest events are left as they are; goes with `token_threshold`.
        summarizer: writes the summaries; a function of the events does so in place of a model. By default the root's model.

    Raises:
        DefinitionError: a value is wrong, or what goes together is not given together.
    """

    compaction_interval: int | None = None
    overlap_size: int | None = None
    token_threshold: int | None = None
    event_retention_size: int | None = None
    summarizer: LlmEventSummarizer | SummaryFunction | None = None

    def __post_init__(self) -> None:
        _check_number("compaction_interval", self.compaction_interval, 1)
        _check_number("overlap_size", self.overlap_size, 0)
        _check_number("token_threshold", self.token_threshold, 1)
        _check_number("event_retention_size", self.event_retention_size, 0)
        _check_pair("compaction_interval", self.compaction_interval, "overlap_size", self.overlap_size)
        _check_pair("token_threshold", self.token_threshold, "event_retention_size", self.event_retention_size)
        if self.compaction_interval is None and self.token_threshold is None:
            raise DefinitionError(
                "EventsCompactionConfig: give compaction_interval and overlap_size, or token_threshold and "
                "event_retention_size, or all four"
            )
        given = self.summarizer
        if given is not None and not isinstance(given, LlmEventSummarizer) and (inspect.isclass(given) or not callable(given)):
            raise DefinitionError(
                "EventsCompactionConfig: summarizer must be an LlmEventSummarizer, or a function of the events, not "
                f"{given.__name__ if inspect.isclass(given) else type(given).__name__}"
            )

    @property
    def model(self) -> str | Model:
        """The model that writes the summaries; "" where that is the agent's own, or a function does it."""
        return self.summarizer.model if isinstance(self.summarizer, LlmEventSummarizer) else ""

    @property
    def rule(self) -> CompactionRule:
        """The numbers, for the rules."""
        return CompactionRule(
            self.compaction_interval, self.overlap_size or 0, self.token_threshold, self.event_retention_size or 0
        )


def with_model_of(root: BaseAgent, given: object) -> EventsCompactionConfig | None:
    """The settings with the root's model, if they name none. Raises DefinitionError for what are no settings."""
    if given is None:
        return None
    if not isinstance(given, EventsCompactionConfig):
        raise DefinitionError(f"events_compaction_config must be an EventsCompactionConfig or None, not {type(given).__name__}")
    summarizer = given.summarizer or LlmEventSummarizer()
    if isinstance(summarizer, LlmEventSummarizer) and not summarizer.model and isinstance(root, LlmAgent):
        summarizer = replace(summarizer, model=root.model)
    return replace(given, summarizer=summarizer)


def _check_number(name: str, value: object, least: int) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise DefinitionError(f"EventsCompactionConfig: {name} must be a whole number from {least} on, or None, not {value!r}")


def _check_pair(name: str, value: object, other: str, given: object) -> None:
    if (value is None) != (given is None):
        missing, there = (name, other) if value is None else (other, name)
        raise DefinitionError(f"EventsCompactionConfig: {there} needs {missing} beside it")


def transcript(events: Iterable[Event]) -> str:
    """A line for each thing that was said, called or returned, with its author."""
    return "\n".join(line for event in events for line in _lines(event))


def _lines(event: Event) -> Iterator[str]:
    for part in event.content.parts if event.content is not None else ():
        if part.text:
            yield f"{event.author} (thought): {part.text}" if part.thought else f"{event.author}: {part.text}"
        if (call := part.function_call) is not None:
            yield f"{event.author} called tool: {call.name}({_cut(call.args)})"
        if (response := part.function_response) is not None:
            yield f"Tool response from {response.name}: {_cut(response.response)}"


def _cut(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    left_out = len(text) - MAX_CHARACTERS
    return text if left_out <= 0 else f"{text[:MAX_CHARACTERS]}… ({left_out} more characters)"
