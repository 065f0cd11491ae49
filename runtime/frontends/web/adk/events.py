"""Events and messages in the form in which ADK's clients know them.

A call that needs confirmation pauses a turn here. ADK makes a second call for it, `adk_request_confirmation`, which its clients
answer. So it is shown beside the call, under the call's id with `:confirm` behind it, and answers to that id are answers to the
call: nothing has to be remembered in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event
from actors.messages.json_types import JsonObject
from actors.messages.turn_info import PendingCall
from actors.rules.checks.confirmation import REQUEST_CONFIRMATION, SUFFIX, unwrapped
from runtime.frontends.web import redaction

_ACTIONS = frozenset(
    {
        *("stateDelta", "artifactDelta", "transferToAgent", "escalate", "skipSummarization"),
        *("requestedToolConfirmations", "rewindBeforeInvocationId"),
    }
)
"""The actions that ADK's clients know; they refuse others."""


def adk_events(events: Iterable[Event], *, for_operator: bool) -> list[JsonObject]:
    """The events of a session. Answers to confirmations are shown as answers to `adk_request_confirmation`."""
    confirmations: set[str] = set()
    calls: dict[str, FunctionCall] = {}
    found = []
    for event in events:
        shown = adk_event(event, calls, for_operator=for_operator)
        if event.author == USER:
            for part in shown.get("content", {}).get("parts", ()):
                response = part.get("functionResponse", {})
                if response.get("id") in confirmations:
                    response.update(id=f"{response['id']}{SUFFIX}", name=REQUEST_CONFIRMATION)
        confirmations.update(event.actions.requested_tool_confirmations)
        found.append(shown)
    return found


def adk_event(event: Event, calls: dict[str, FunctionCall], *, for_operator: bool) -> JsonObject:
    """An event, with calls of `adk_request_confirmation` for those that need confirmation.

    Args:
        calls: those of earlier events, by id, for tools that ask in the middle of a call; gets those of this one.
    """
    calls.update((call.id, call) for call in event.function_calls() if call.id)
    shown: JsonObject = msgspec.to_builtins(redaction.shown(event, for_operator=for_operator))
    shown.pop("flow", None)
    for part in shown.get("content", {}).get("parts", ()):
        _complete(part)
    actions = {name: value for name, value in shown.get("actions", {}).items() if name in _ACTIONS}
    shown["actions"] = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, **actions}
    wanted = event.actions.requested_tool_confirmations
    if wanted:
        ids = [each for each in event.long_running_tool_ids if each not in wanted]
        for call_id in wanted:
            if (call := calls.get(call_id)) is not None:
                parts = shown.setdefault("content", {"role": "model", "parts": []})["parts"]
                parts.append({"functionCall": _request(call_id, call.name or "", call.args or {}, wanted)})
                ids.append(f"{call_id}{SUFFIX}")
        shown["longRunningToolIds"] = ids
    return shown


def _complete(part: JsonObject) -> None:
    """Put in what raygrove leaves out when it is empty: clients read the arguments of each call."""
    if (call := part.get("functionCall")) is not None and not (call.get("partialArgs") or call.get("willContinue")):
        call.setdefault("args", {})
    if (response := part.get("functionResponse")) is not None:
        response.setdefault("response", {})


def _request(call_id: str, name: str, args: Mapping[str, object], wanted: Mapping[str, JsonObject]) -> JsonObject:
    return {
        "id": f"{call_id}{SUFFIX}",
        "name": REQUEST_CONFIRMATION,
        "args": {
            "originalFunctionCall": {"id": call_id, "name": name, "args": args},
            "toolConfirmation": {"hint": "", "confirmed": False, **wanted[call_id]},
        },
    }


def frames_of(shown: JsonObject, *, splits: bool) -> list[JsonObject]:
    """An event as one frame, or as two: ADK's page shows artifacts only of events without content."""
    delta = shown["actions"]["artifactDelta"]
    if not (splits and delta and shown.get("content", {}).get("parts")):
        return [shown]
    words = {**shown, "actions": {**shown["actions"], "artifactDelta": {}}}
    return [words, {name: value for name, value in shown.items() if name != "content"}]


def answered(message: JsonObject, pending: Iterable[PendingCall]) -> JsonObject:
    """A message of a client, in which answers to `adk_request_confirmation` are answers to the calls themselves.

    Args:
        message: a content with camelCase or snake_case keys.
        pending: the calls that wait in the session.
    """
    names = {call.call_id: call.name for call in pending}
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message
    return {**message, "parts": [_answered_part(part, names) for part in parts]}


def _answered_part(part: object, names: Mapping[str, str]) -> object:
    if not isinstance(part, dict):
        return part
    key = "functionResponse" if "functionResponse" in part else "function_response"
    response = part.get(key)
    if not isinstance(response, dict):
        return part
    call_id = str(response.get("id", ""))
    if not call_id.endswith(SUFFIX):
        return part
    call_id = call_id.removesuffix(SUFFIX)
    name = names.get(call_id, response.get("name"))
    given = response.get("response")
    given = unwrapped(given) if isinstance(given, dict) else given
    return {**part, key: {**response, "id": call_id, "name": name, "response": given}}


def has_answers(message: JsonObject) -> bool:
    """True when a message answers calls."""
    parts = message.get("parts")
    return isinstance(parts, list) and any(
        isinstance(part, dict) and (part.get("functionResponse") or part.get("function_response")) for part in parts
    )
