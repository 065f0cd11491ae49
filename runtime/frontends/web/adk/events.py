"""Events and messages in the form in which ADK's clients know them.

A call that needs confirmation pauses a turn here. ADK makes a second call for it, `adk_request_confirmation`, which its clients
answer, and answers the first one for the time being. So two more events are shown behind that of the call. The second call has
the id of the first with `:confirm` behind it, and answers to that id are answers to the call: nothing has to be remembered in
between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, node_at
from actors.messages.json_types import JsonObject
from actors.messages.turn_info import PendingCall
from actors.rules.checks.confirmation import REQUEST_CONFIRMATION, SUFFIX, unwrapped
from runtime.frontends.web import redaction

_ACTIONS = frozenset(
    {
        *("stateDelta", "artifactDelta", "transferToAgent", "escalate", "skipSummarization", "route"),
        *("requestedToolConfirmations", "rewindBeforeInvocationId"),
    }
)
"""The actions that ADK's clients know; they refuse others."""

ASKS, WAITS = "-asks", "-waits"
"""They end the ids of the two events behind that of a call that needs confirmation."""

_FOR_NOW: JsonObject = {"error": "This tool call requires confirmation, please approve or reject."}


class AdkEvents:
    """Shows the events of a session, or of a turn, one after the other.

    Args:
        for_operator: also the texts of errors: see redaction.
    """

    def __init__(self, *, for_operator: bool) -> None:
        self._for_operator = for_operator
        self._calls: dict[str, FunctionCall] = {}
        self._confirmations: set[str] = set()
        self._scopes: set[str] = set()

    def shown(self, event: Event) -> list[JsonObject]:
        """The events that ADK has in place of one: notes of a graph are none, and a call that needs confirmation is three."""
        info = event.node_info
        if info is not None and info.is_note:
            return []
        self._calls.update((call.id, call) for call in event.function_calls() if call.id)
        shown: JsonObject = msgspec.to_builtins(redaction.shown(event, for_operator=self._for_operator))
        shown.pop("flow", None)
        for part in shown.get("content", {}).get("parts", ()):
            _complete(part)
        actions = {name: value for name, value in shown.get("actions", {}).items() if name in _ACTIONS}
        shown["actions"] = {**_NO_ACTIONS, **actions}
        if info is not None:
            self._show_node(shown, event, info)
        if event.author == USER:
            self._name_confirmations(shown)
        wanted = event.actions.requested_tool_confirmations
        self._confirmations.update(wanted)
        return [shown, *self._asked(shown, event, wanted)] if wanted else [shown]

    def _show_node(self, shown: JsonObject, event: Event, info: NodeInfo) -> None:
        said = {"path": info.path, "outputFor": [info.path, *info.output_for], "messageAsOutput": True}
        is_said = {"path": True, "outputFor": event.output is not None, "messageAsOutput": info.message_as_output}
        is_said["outputFor"] = is_said["outputFor"] or info.message_as_output
        shown["nodeInfo"] = {name: value for name, value in said.items() if is_said[name]}
        if info.isolation_scope:
            self._scopes.add(info.isolation_scope)
            shown["isolationScope"] = info.isolation_scope
        if info.is_alone:
            shown["author"] = node_at(info.path)
        if any(response.id in self._scopes for response in event.function_responses()):
            # ADK has the user say what has come of a task.
            shown["author"] = USER

    def _name_confirmations(self, shown: JsonObject) -> None:
        """Show answers to confirmations as answers to `adk_request_confirmation`."""
        for part in shown.get("content", {}).get("parts", ()):
            response = part.get("functionResponse", {})
            if response.get("id") in self._confirmations:
                response.update(id=f"{response['id']}{SUFFIX}", name=REQUEST_CONFIRMATION)

    def _asked(self, shown: JsonObject, event: Event, wanted: Mapping[str, JsonObject]) -> list[JsonObject]:
        """The two events behind that of calls that need confirmation; takes what they say out of that one."""
        shown["actions"].pop("requestedToolConfirmations", None)
        rest = [each for each in event.long_running_tool_ids if each not in wanted]
        shown.pop("longRunningToolIds", None)
        if rest:
            shown["longRunningToolIds"] = rest
        calls = {call_id: call for call_id in wanted if (call := self._calls.get(call_id)) is not None}
        said = {name: shown[name] for name in _OF_EVERY_EVENT if name in shown}
        requests = [_request(call_id, call.name or "", call.args or {}, wanted) for call_id, call in calls.items()]
        asks = {
            **said,
            "id": f"{event.id}{ASKS}",
            "content": {"role": "model", "parts": [{"functionCall": each} for each in requests]},
            "longRunningToolIds": [each["id"] for each in requests],
            "actions": dict(_NO_ACTIONS),
        }
        answers = [{"id": call_id, "name": call.name or "", "response": _FOR_NOW} for call_id, call in calls.items()]
        waits = {
            **said,
            "id": f"{event.id}{WAITS}",
            "content": {"role": "user", "parts": [{"functionResponse": each} for each in answers]},
            "actions": {**_NO_ACTIONS, "skipSummarization": True, "requestedToolConfirmations": dict(wanted)},
        }
        return [asks, waits]


_NO_ACTIONS: JsonObject = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}}

_OF_EVERY_EVENT = ("invocationId", "author", "timestamp", "branch", "nodeInfo", "isolationScope")


def adk_events(events: Iterable[Event], *, for_operator: bool) -> list[JsonObject]:
    """The events of a session, or of a turn: see AdkEvents."""
    view = AdkEvents(for_operator=for_operator)
    return [shown for event in events for shown in view.shown(event)]


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
