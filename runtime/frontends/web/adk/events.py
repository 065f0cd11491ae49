"""Events and messages in the form in which ADK's clients know them.

A call that needs confirmation pauses a turn here. ADK makes a second call for it, `adk_request_confirmation`, which its clients
answer. So it is shown beside the call, under the call's id with `:confirm` behind it, and answers to that id are answers to the
call: nothing has to be remembered in between. A tool of google-adk that asks for a credential is shown in the same way, by a call
of `adk_request_credential` with `:credential` behind the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.turn_info import PendingCall
from actors.rules.checks.confirmation import REQUEST_CONFIRMATION, SUFFIX, unwrapped
from actors.rules.checks.credentials import REQUEST_CREDENTIAL
from runtime.frontends.web import redaction

AUTH_CONFIG = "authConfig"
"""The key of a question that asks for a credential of google-adk."""

CREDENTIAL_SUFFIX = ":credential"
"""Stands behind the id of a call in the id of the `adk_request_credential` for it."""

_ACTIONS = frozenset(
    {
        *("stateDelta", "artifactDelta", "transferToAgent", "escalate", "skipSummarization"),
        *("requestedToolConfirmations", "rewindBeforeInvocationId"),
    }
)
"""The actions that ADK's clients know; they refuse others."""


def adk_events(events: Iterable[Event], *, for_operator: bool) -> list[JsonObject]:
    """The events of a session. Answers to confirmations are shown as answers to `adk_request_confirmation`."""
    asked: dict[str, tuple[str, str]] = {}
    calls: dict[str, FunctionCall] = {}
    found = []
    for event in events:
        shown = adk_event(event, calls, for_operator=for_operator)
        if event.author == USER:
            for part in shown.get("content", {}).get("parts", ()):
                response = part.get("functionResponse", {})
                if (names := asked.get(response.get("id", ""))) is not None:
                    response.update(id=f"{response['id']}{names[1]}", name=names[0])
        asked.update(dict.fromkeys(event.actions.requested_tool_confirmations, (REQUEST_CONFIRMATION, SUFFIX)))
        asked.update(dict.fromkeys(_credentials(event), (REQUEST_CREDENTIAL, CREDENTIAL_SUFFIX)))
        found.append(shown)
    return found


def adk_event(event: Event, calls: dict[str, FunctionCall], *, for_operator: bool) -> JsonObject:
    """An event, with calls of `adk_request_confirmation` and `adk_request_credential` for those that need one or the other.

    Args:
        calls: those of earlier events, by id, for tools that ask in the middle of a call; gets those of this one.
    """
    calls.update((call.id, call) for call in event.function_calls() if call.id)
    shown: JsonObject = msgspec.to_builtins(redaction.shown(event, for_operator=for_operator))
    shown.pop("flow", None)
    for part in shown.get("content", {}).get("parts", ()):
        _complete(part)
    actions = {name: value for name, value in shown.get("actions", {}).items() if name in _ACTIONS}
    wanted, credentials = event.actions.requested_tool_confirmations, _credentials(event)
    shown["actions"] = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": credentials, **actions}
    if wanted or credentials:
        requests = [_request(call_id, calls[call_id], wanted[call_id]) for call_id in wanted if call_id in calls]
        requests += [_credential_request(call_id, config) for call_id, config in credentials.items()]
        shown.setdefault("content", {"role": "model", "parts": []})["parts"] += [{"functionCall": each} for each in requests]
        ids = [each for each in event.long_running_tool_ids if each not in wanted]
        shown["longRunningToolIds"] = [*ids, *(str(each["id"]) for each in requests)]
    return shown


def _credentials(event: Event) -> dict[str, JsonValue]:
    """The credentials that calls ask for in the event, by their ids."""
    asked = event.actions.requested_inputs.items()
    return {call_id: each.question[AUTH_CONFIG] for call_id, each in asked if AUTH_CONFIG in each.question}


def _credential_request(call_id: str, config: JsonValue) -> JsonObject:
    args: JsonObject = {"functionCallId": call_id, AUTH_CONFIG: config}
    return {"id": f"{call_id}{CREDENTIAL_SUFFIX}", "name": REQUEST_CREDENTIAL, "args": args}


def _complete(part: JsonObject) -> None:
    """Put in what raygrove leaves out when it is empty: clients read the arguments of each call."""
    if (call := part.get("functionCall")) is not None and not (call.get("partialArgs") or call.get("willContinue")):
        call.setdefault("args", {})
    if (response := part.get("functionResponse")) is not None:
        response.setdefault("response", {})


def _request(call_id: str, call: FunctionCall, wanted: JsonObject) -> JsonObject:
    return {
        "id": f"{call_id}{SUFFIX}",
        "name": REQUEST_CONFIRMATION,
        "args": {
            "originalFunctionCall": {"id": call_id, "name": call.name or "", "args": call.args or {}},
            "toolConfirmation": {"hint": "", "confirmed": False, **wanted},
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
    """A message of a client, in which answers to the calls that are made for it are answers to the calls themselves.

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
    given_id = str(response.get("id", ""))
    call_id = given_id.removesuffix(SUFFIX).removesuffix(CREDENTIAL_SUFFIX)
    if call_id == given_id:
        return part
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
