"""Contents, parts, responses and events of google-adk as raygrove's, and back."""

from __future__ import annotations

import builtins
from typing import Any, cast

import msgspec
from google.adk.events.event import Event as AdkEvent
from google.adk.events.event import NodeInfo
from google.adk.events.event_actions import EventActions as AdkActions
from google.adk.events.event_actions import EventCompaction as AdkCompaction
from google.adk.models.llm_response import LlmResponse as AdkResponse
from google.genai import types

import runtime.models  # noqa: F401 - Content.to_genai needs it
from actors.errors import AgentFailedError, PluginFailedError
from actors.messages.content import Content, Part
from actors.messages.event import ADK_FIELDS, Event, EventActions, EventCompaction, Usage
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmResponse

_SOURCES = {
    "citation_metadata": "citationMetadata",
    "model_version": "modelVersion",
    "avg_logprobs": "avgLogprobs",
    "logprobs_result": "logprobsResult",
}
"""Fields of an ADK response that stand in custom_metadata under the service's names, as those of raygrove's Gemini do."""

_CONTENT, _TEXT = types.Content(), types.Part()
"""Copied for contents of texts, which takes a third of the time of making them."""


def genai_content(content: Content) -> types.Content:
    """The content as google-genai's."""
    texts = [part.text for part in content.parts]
    if content.role is None or None in texts or not texts or content.parts != [Part(text=text) for text in texts]:
        return cast(types.Content, content.to_genai())
    parts = [_TEXT.model_copy(update={"text": text}) for text in texts]
    return _CONTENT.model_copy(update={"role": content.role, "parts": parts})


def own_content(given: Any) -> Content:
    """A content of google-genai, a text or a content of raygrove as the latter."""
    if isinstance(given, Content):
        return given
    return Content.of_text(given, role="model") if isinstance(given, str) else Content.from_genai(given)


def genai_part(part: Part) -> types.Part:
    """The part as google-genai's."""
    return cast(types.Part, genai_content(Content(parts=[part])).parts[0])  # type: ignore[index]


def own_part(given: Any) -> Part:
    """A part of google-genai, or its dictionary, as raygrove's."""
    if isinstance(given, Part):
        return given
    part = types.Part.model_validate(given) if isinstance(given, dict) else given
    return Content.from_genai(types.Content(parts=[part])).parts[0]


def _text(value: Any) -> str | None:
    """An enum's value, or a text."""
    return None if value is None else str(getattr(value, "value", value))


def own_response(given: AdkResponse) -> LlmResponse:
    """An ADK response as raygrove's; what only ADK has of it is left out."""
    metadata = dict(given.custom_metadata or {})
    for field, name in _SOURCES.items():
        value = getattr(given, field)
        if value is not None:
            metadata[name] = _json(value)
    return LlmResponse(
        content=own_content(given.content) if given.content is not None and given.content.parts else None,
        partial=bool(given.partial),
        finish_reason=_text(given.finish_reason),
        error_code=_text(given.error_code),
        error_message=given.error_message,
        usage=_own_usage(given.usage_metadata),
        grounding_metadata=_json(given.grounding_metadata),
        custom_metadata=metadata or None,
    )


def _json(given: Any) -> Any:
    """An object of google-genai with the service's camelCase keys; a text or a number as it is."""
    return given.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(given, "model_dump") else given


def _own_usage(given: Any) -> Usage | None:
    return None if given is None else Usage(**{name: getattr(given, name, None) for name in Usage.__struct_fields__})


def adk_response(response: LlmResponse) -> AdkResponse:
    """A response as ADK's."""
    return AdkResponse(**_response_fields(response), partial=response.partial or None)


def _response_fields(given: LlmResponse | Event) -> dict[str, Any]:
    """The fields that ADK's responses and events share."""
    usage = given.usage
    metadata = dict(given.custom_metadata or {})
    metadata.pop(ADK_FIELDS, None)
    fields = {field: metadata.pop(name) for field, name in _SOURCES.items() if name in metadata}
    reasons = types.FinishReason.__members__
    return {
        **fields,
        "grounding_metadata": given.grounding_metadata,
        "content": genai_content(given.content) if given.content is not None else None,
        "finish_reason": given.finish_reason if given.finish_reason in reasons else None,
        "error_code": given.error_code,
        "error_message": given.error_message,
        "usage_metadata": types.GenerateContentResponseUsageMetadata(**msgspec.structs.asdict(usage)) if usage else None,
        "custom_metadata": metadata or None,
    }


def adk_event(event: Event) -> AdkEvent:
    """An event of the log as ADK's. An event that came from ADK is given back whole."""
    kept = (event.custom_metadata or {}).get(ADK_FIELDS)
    if isinstance(kept, dict) and "event" in kept:
        content = genai_content(event.content) if event.content is not None else None
        return AdkEvent.model_validate({**kept["event"], "content": content})
    actions = event.actions
    return AdkEvent(
        **_response_fields(event),
        id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        timestamp=event.timestamp,
        branch=event.branch,
        partial=event.partial,
        long_running_tool_ids=set(event.long_running_tool_ids) or None,
        actions=AdkActions(
            state_delta=dict(actions.state_delta),
            artifact_delta=dict(actions.artifact_delta),
            transfer_to_agent=actions.transfer_to_agent,
            escalate=actions.escalate,
            skip_summarization=actions.skip_summarization,
            route=actions.route,
            compaction=_adk_compaction(actions.compaction),
        ),
        **_of_node(event),
    )


def _adk_compaction(given: EventCompaction | None) -> AdkCompaction | None:
    if given is None:
        return None
    return AdkCompaction(
        start_timestamp=given.start_timestamp,
        end_timestamp=given.end_timestamp,
        compacted_content=genai_content(given.compacted_content),
    )


def _of_node(event: Event) -> dict[str, Any]:
    """The fields of an event of a node of a graph."""
    info = event.node_info
    fields: dict[str, Any] = {} if event.output is None else {"output": event.output}
    if info is not None:
        given = NodeInfo(
            path=info.path, output_for=list(info.output_for) or None, message_as_output=info.message_as_output or None
        )
        fields |= {"node_info": given}
        if info.isolation_scope:
            fields["isolation_scope"] = info.isolation_scope
    return fields


def own_event(given: AdkEvent, *, author: str = "", metadata: JsonObject | None = None) -> Event:
    """An event that an ADK agent has yielded, as one to be stored.

    Args:
        author: its author; by default ADK's.
        metadata: is added to its custom_metadata.
    """
    response = own_response(given)
    return Event(
        author=author or given.author,
        content=response.content,
        partial=given.partial or None,
        finish_reason=response.finish_reason,
        error_code=response.error_code,
        error_message=response.error_message,
        usage=response.usage,
        model_version=given.model_version,
        grounding_metadata=response.grounding_metadata,
        custom_metadata={**(response.custom_metadata or {}), **(metadata or {})} or None,
        long_running_tool_ids=tuple(given.long_running_tool_ids or ()),
        actions=own_actions(given.actions),
    )


def own_actions(given: AdkActions) -> EventActions:
    """The actions of an ADK event."""
    return EventActions(
        state_delta=dict(given.state_delta),
        artifact_delta=dict(given.artifact_delta),
        transfer_to_agent=given.transfer_to_agent,
        escalate=given.escalate,
        skip_summarization=given.skip_summarization,
    )


def as_raised(error: BaseException) -> BaseException:
    """The error of a run as its code has raised it, if it is of a class of Python's own; any other one as it is."""
    if not isinstance(error, AgentFailedError | PluginFailedError):
        return error
    _, name, message = error.args
    kind = getattr(builtins, name, None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, Exception) else error
