"""What an App of google-adk has beside its agents: plugins, and how long conversations are summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer as AdkLlmEventSummarizer
from google.adk.plugins.base_plugin import BasePlugin

from actors.definitions.agents.callbacks import Plugin
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors import DefinitionError
from actors.layers.compaction.definitions import HISTORY, EventsCompactionConfig, LlmEventSummarizer
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.integrations.adk import contexts
from runtime.integrations.adk.callbacks import call, request_view
from runtime.integrations.adk.contents import (
    adk_event,
    adk_response,
    as_raised,
    genai_content,
    own_content,
    own_event,
    own_response,
)
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.models import own_model
from runtime.integrations.adk.requests import adk_tool


class AdkPlugin(Plugin):
    """A BasePlugin as a plugin; `adk_plugin` gives it its hooks.

    Args:
        sources: the agents of the tree by name, which the callbacks are given.
        alone: agents of whose runs the BasePlugin is not told.
    """

    def __init__(self, adk: BasePlugin, sources: Mapping[str, Source], root: str, alone: frozenset[str] = frozenset()) -> None:
        super().__init__(adk.name)
        self._alone = alone
        self._adk = adk
        self._sources = sources
        self._root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return adk_plugin, (self._adk, self._sources, self._root, self._alone)

    def _source(self, ours: CallbackContext) -> Source:
        return self._sources.get(ours.agent_name) or self._sources[self._root]

    def _context(self, ours: CallbackContext) -> Any:
        source = self._source(ours)
        return contexts.callback_context(source.agent, ours, source.app_name)

    async def _call_turn(self, name: str, ours: CallbackContext, **more: Any) -> Any:
        """Call a callback that has the whole turn's context."""
        if ours.agent_name in self._alone:
            return None
        source = self._source(ours)
        theirs = contexts.invocation_context(source.agent, ours, source.app_name)
        result = await call(getattr(self._adk, name), ours, invocation_context=theirs, **more)
        contexts.carry_state(theirs, ours)
        return result

    async def _call(self, name: str, ours: CallbackContext, keyword: str, **more: Any) -> Any:
        """Call a callback that has a context of its own, under that keyword."""
        if ours.agent_name in self._alone:
            return None
        theirs = self._context(ours)
        result = await call(getattr(self._adk, name), ours, **{keyword: theirs}, **more)
        contexts.carry_back(theirs, ours)
        return result


class _Hooks(AdkPlugin):
    """All hooks."""

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content | None:
        """Call ADK's; a message that it changes in place counts as well."""
        message = genai_content(content)
        before = message.model_copy(deep=True)
        result = await self._call_turn("on_user_message_callback", context, user_message=message)
        result = message if result is None else result
        return own_content(result) if result != before else None

    async def before_run_callback(self, context: CallbackContext) -> Content | None:
        """Call ADK's; a content ends the turn."""
        result = await self._call_turn("before_run_callback", context)
        return own_content(result) if hasattr(result, "parts") else None

    async def after_run_callback(self, context: CallbackContext) -> None:
        """Call ADK's."""
        await self._call_turn("after_run_callback", context)

    async def on_run_error_callback(self, context: CallbackContext, error: Exception) -> None:
        """Call ADK's."""
        await self._call_turn("on_run_error_callback", context, error=as_raised(error))

    async def on_event_callback(self, context: CallbackContext, event: Event) -> Event | None:
        """Call ADK's; an event that it changes in place counts as well."""
        if event.actions.compaction is not None:
            # ADK stores summaries past its plugins.
            return None
        theirs = adk_event(event)
        before = theirs.model_copy(deep=True)
        result = await self._call_turn("on_event_callback", context, event=theirs)
        result = theirs if result is None else result
        if result == before:
            return None
        given = own_event(result, author=event.author)
        # A finish reason that google-genai does not know would be lost on the way through its types.
        kept = given.finish_reason or event.finish_reason
        actions = msgspec.structs.replace(
            given.actions,
            requested_tool_confirmations=event.actions.requested_tool_confirmations,
            requested_inputs=event.actions.requested_inputs,
        )
        return msgspec.structs.replace(given, finish_reason=kept, actions=actions)

    async def before_agent_callback(self, context: CallbackContext) -> Content | None:
        """Call ADK's; a content is the agent's answer."""
        result = await self._call("before_agent_callback", context, "callback_context", agent=self._source(context).agent)
        return own_content(result) if result is not None else None

    async def after_agent_callback(self, context: CallbackContext) -> Content | None:
        """Call ADK's; a content becomes one more event."""
        result = await self._call("after_agent_callback", context, "callback_context", agent=self._source(context).agent)
        return own_content(result) if result is not None else None

    async def on_agent_error_callback(self, context: CallbackContext, error: Exception) -> None:
        """Call ADK's."""
        agent = self._source(context).agent
        await self._call("on_agent_error_callback", context, "callback_context", agent=agent, error=error)

    async def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> LlmResponse | None:
        """Call ADK's; the request may be changed."""
        view = request_view(request, self._source(context))
        result = await self._call("before_model_callback", context, "callback_context", llm_request=view.adk)
        view.carry_back()
        return own_response(result) if result is not None else None

    async def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> LlmResponse | None:
        """Call ADK's; a response that it changes in place counts as well."""
        # Made twice in place of a deep copy, which costs more.
        theirs, before = adk_response(response), adk_response(response)
        result = await self._call("after_model_callback", context, "callback_context", llm_response=theirs)
        result = theirs if result is None else result
        if result == before:
            return None
        given = own_response(result)
        return msgspec.structs.replace(given, finish_reason=given.finish_reason or response.finish_reason)

    async def on_model_error_callback(
        self, context: CallbackContext, request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Call ADK's; a response takes the place of the error."""
        asked = request_view(request, self._source(context)).adk
        result = await self._call("on_model_error_callback", context, "callback_context", llm_request=asked, error=error)
        return own_response(result) if result is not None else None

    async def before_tool_callback(self, tool: Any, args: JsonObject, context: ToolContext) -> Any:
        """Call ADK's; the arguments may be changed."""
        return await self._call("before_tool_callback", context, "tool_context", tool=adk_tool(tool), tool_args=args)

    async def after_tool_callback(self, tool: Any, args: JsonObject, context: ToolContext, result: Any) -> Any:
        """Call ADK's; a result that it changes in place counts as well."""
        return await self._call(
            "after_tool_callback", context, "tool_context", tool=adk_tool(tool), tool_args=args, result=result
        )

    async def on_tool_error_callback(self, tool: Any, args: JsonObject, context: ToolContext, error: Exception) -> Any:
        """Call ADK's; a result takes the place of the error."""
        return await self._call(
            "on_tool_error_callback", context, "tool_context", tool=adk_tool(tool), tool_args=args, error=error
        )


def adk_plugin(adk: BasePlugin, sources: Mapping[str, Source], root: str, alone: frozenset[str] = frozenset()) -> Plugin:
    """A BasePlugin as a plugin that has the hooks which the BasePlugin overrides, and no other, since each costs time."""
    names = [name for name in vars(_Hooks) if name.endswith("_callback")]
    own = {name: vars(_Hooks)[name] for name in names if getattr(type(adk), name) is not getattr(BasePlugin, name)}
    kind: type[AdkPlugin] = type("AdkPlugin", (AdkPlugin,), own)
    return kind(adk, sources, root, alone)


def hooks_inside(adk: BasePlugin) -> list[str]:
    """The callbacks of a BasePlugin for models and tools, which an island keeps to itself."""
    names = [name for name in vars(_Hooks) if "_model_" in name or "_tool_" in name]
    return [name for name in names if getattr(type(adk), name) is not getattr(BasePlugin, name)]


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
