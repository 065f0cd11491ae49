"""Calls by which toolsets ask the user for credentials: the agent makes them, and no model sees them (semantics.md 5.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.messages.event import USER, Event
from actors.messages.json_types import JsonObject

REQUEST_CREDENTIAL = "adk_request_credential"
"""The name of such a call, as in ADK."""

TOOLSET = "functionCallId"
"""The argument that names the toolset, as in ADK."""


def asks_credential(event: Event) -> bool:
    """True for an event with such a call."""
    return any(call.name == REQUEST_CREDENTIAL for call in event.function_calls())


def credential_answers(events: Iterable[Event], invocation_id: str) -> Mapping[str, JsonObject]:
    """The newest answers of the user to such calls in a turn, by toolset."""
    asked: dict[str, str] = {}
    found: dict[str, JsonObject] = {}
    for event in events:
        if event.invocation_id != invocation_id:
            continue
        if event.author == USER:
            for response in event.function_responses():
                if (toolset := asked.get(response.id or "")) is not None:
                    found[toolset] = response.response
        elif asks_credential(event):
            asked.update((call.id or "", str((call.args or {}).get(TOOLSET))) for call in event.function_calls())
    return found
