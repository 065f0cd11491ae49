"""What the user's answer to a call that needs confirmation means (semantics.md 5.6)."""

from __future__ import annotations

import msgspec

from actors.messages.content import FunctionResponse, Part
from actors.messages.json_types import JsonMapping, JsonObject

CONFIRMED = "confirmed"

PAYLOAD = "payload"
"""The key of what the user gives along with an answer."""

REQUEST_CONFIRMATION = "adk_request_confirmation"
"""The call that ADK makes to ask the user; its clients answer that one."""

REJECTED = "This tool call is rejected."
"""The answer that the model gets to a call that the user has declined; google-adk's words."""

SUFFIX = ":confirm"
"""Stands behind the id of a call in the id of the `adk_request_confirmation` for it."""


def of_clients(part: Part) -> Part:
    """A part of a message, in which an answer to `adk_request_confirmation` is an answer to the call itself."""
    response = part.function_response
    if response is None or response.name != REQUEST_CONFIRMATION:
        return part
    call_id = (response.id or "").removesuffix(SUFFIX)
    given = FunctionResponse(id=call_id, name=response.name, response=unwrapped(response.response))
    return Part(function_response=given)


def unwrapped(given: JsonObject) -> JsonObject:
    """The answer itself, which some clients wrap into a text of JSON."""
    inner = given.get("response")
    if len(given) != 1 or inner is None:
        return given
    if isinstance(inner, str):
        try:
            inner = msgspec.json.decode(inner)
        except ValueError:
            return given
    return inner if isinstance(inner, dict) else given


def refusal(tool: str, answer: JsonMapping) -> str | None:
    """Why the call is not run, in words for the model; None when the user has agreed.

    Only `{"confirmed": true}` is an agreement; every other answer is a refusal.
    """
    confirmed = answer.get(CONFIRMED)
    if confirmed is True:
        return None
    if confirmed is False:
        return REJECTED
    given = msgspec.json.encode(answer).decode()
    return f'{tool} was not run: the answer has to be {{"{CONFIRMED}": true}} or {{"{CONFIRMED}": false}}, not {given}'
