"""Events and messages in the form in which ADK's clients know them.

A call that needs confirmation pauses a turn here. ADK makes a second call for it, `adk_request_confirmation`, which its clients
answer, and answers the first one for the time being. So two more events are shown behind that of the call. The second call has
the id of the first with `:confirm` behind it, and answers to that id are answers to the call: nothing has to be remembered in
between. A tool of google-adk that asks for a credential is shown in the same way, by `adk_request_credential` with `:credential`
behind the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actors.layers.listing.messages import PendingCall
from actors.messages.content import FunctionCall
from actors.messages.event import ADK_FIELDS, USER, Event
from actors.messages.graph import REQUEST_INPUT, NodeInfo, node_at, without_tools
from actors.messages.json_types import JsonObject, JsonValue
from actors.rules.checks.questions import REQUEST_CONFIRMATION, REQUEST_CREDENTIAL, SUFFIX, unwrapped
from runtime.frontends.web import problems
from runtime.frontends.web.adk.checkpoints import Checkpoint, Checkpoints

AUTH_CONFIG = "authConfig"
"""The key of a question that asks for a credential of google-adk."""

CREDENTIAL_SUFFIX = ":credential"
"""Stands behind the id of a call in the id of the `adk_request_credential` for it."""

_ACTIONS = frozenset(
    {
        *("stateDelta", "artifactDelta", "transferToAgent", "escalate", "skipSummarization", "route"),
        *("requestedToolConfirmations", "rewindBeforeInvocationId"),
    }
)
"""The actions that ADK's clients know; they refuse others."""

CHECKPOINT = "-checkpoint-"
"""Stands in the ids of checkpoints, between the id of the event and a number."""

LAST = 1_000
"""The number of the first checkpoint behind the last event of a turn."""

ASKS, WAITS = "-asks", "-waits"
"""They end the ids of the two events behind that of a call that needs confirmation."""

_HINT = (
    "Please approve or reject the tool call {}() by responding with a FunctionResponse with an expected ToolConfirmation payload."
)
"""What ADK says where a tool asks by its definition, and says nothing itself: clients show it."""

_FOR_NOW: JsonObject = {"error": "This tool call requires confirmation, please approve or reject."}


class AdkEvents:
    """Shows the events of a session, or of a turn, one after the other.

    Args:
        for_operator: also the texts of errors: see `problems.shown`.
        checkpoints: derives the events by which a resumable App says how far agents are; None: the App has none.
        custom_metadata: that of the RunConfig of the turn, where the user's event is not among the events.
    """

    def __init__(
        self, *, for_operator: bool, checkpoints: Checkpoints | None = None, custom_metadata: JsonObject | None = None
    ) -> None:
        self._for_operator = for_operator
        self._metadata_of_turn = custom_metadata or {}
        self._checkpoints = checkpoints
        self._calls: dict[str, FunctionCall] = {}
        # By call: the name and the suffix of the call that ADK's clients answer.
        self._asked_by: dict[str, tuple[str, str]] = {}
        self._scopes: set[str] = set()
        # By turn: what its RunConfig says of it, which ADK writes on each of its events.
        self._metadata: dict[str, JsonObject] = {}

    def shown(self, event: Event) -> list[JsonObject]:
        """The events that ADK has in place of one: notes are none, and a call that needs confirmation is three."""
        if self._checkpoints is None:
            return self._said(event)
        before = self._checkpoints.before(event)
        said, after = self._said(event), self._checkpoints.after(event)
        return [*_told(before), *said, *_told(after, len(before))]

    def ended(self) -> list[JsonObject]:
        """The events behind the last one of a turn that is over, or waits."""
        return _told(self._checkpoints.finished(), LAST) if self._checkpoints is not None else []

    def _said(self, event: Event) -> list[JsonObject]:
        info = event.node_info
        if (info is not None and info.is_note) or _is_silent(event):
            return []
        self._calls.update((call.id, call) for call in event.function_calls() if call.id)
        if ADK_FIELDS in (metadata := event.custom_metadata or {}):
            # An island keeps the whole event there.
            left = {name: value for name, value in metadata.items() if name != ADK_FIELDS}
            event = msgspec.structs.replace(event, custom_metadata=left or None)
        shown: JsonObject = msgspec.to_builtins(problems.shown(event, for_operator=self._for_operator))
        shown.pop("flow", None)
        for part in shown.get("content", {}).get("parts", ()):
            _complete(part)
        actions = {name: value for name, value in shown.get("actions", {}).items() if name in _ACTIONS}
        shown["actions"] = {**_NO_ACTIONS, **actions}
        if info is not None:
            self._show_node(shown, event, info)
        if event.author == USER:
            self._name_answers(shown)
            given = {name: value for name, value in (event.custom_metadata or {}).items() if not name.startswith(_OUR_OWN)}
            self._metadata[event.invocation_id] = self._metadata.get(event.invocation_id, {}) | given
        elif metadata := self._metadata.get(event.invocation_id, self._metadata_of_turn):
            shown["customMetadata"] = {**metadata, **shown.get("customMetadata", {})}
        wanted, credentials = event.actions.requested_tool_confirmations, _credentials(event)
        self._asked_by.update(dict.fromkeys(wanted, (REQUEST_CONFIRMATION, SUFFIX)))
        self._asked_by.update(dict.fromkeys(credentials, (REQUEST_CREDENTIAL, CREDENTIAL_SUFFIX)))
        if credentials:
            return [*self._asked_for_credentials(shown, event, credentials), shown]
        return [shown, *self._asked(shown, event, wanted)] if wanted else [shown]

    def _show_node(self, shown: JsonObject, event: Event, info: NodeInfo) -> None:
        path = without_tools(info.path)
        told: JsonObject = {"path": path}
        if event.output is not None or info.message_as_output:
            told["outputFor"] = [path, *info.output_for]
        if info.message_as_output:
            told["messageAsOutput"] = True
        shown["nodeInfo"] = told
        if info.isolation_scope:
            self._scopes.add(info.isolation_scope)
            shown["isolationScope"] = info.isolation_scope
        if info.is_alone:
            shown["author"] = node_at(info.path)
        if any(response.id in self._scopes for response in event.function_responses()):
            # ADK has the user say what has come of a task.
            shown["author"] = USER

    def _name_answers(self, shown: JsonObject) -> None:
        """Show answers to confirmations as answers to `adk_request_confirmation`, and those with credentials in the same way."""
        for part in shown.get("content", {}).get("parts", ()):
            response = part.get("functionResponse", {})
            if (names := self._asked_by.get(response.get("id", ""))) is not None:
                response.update(id=f"{response['id']}{names[1]}", name=names[0])

    def _asked_for_credentials(self, shown: JsonObject, event: Event, credentials: Mapping[str, JsonValue]) -> list[JsonObject]:
        """The event before that of calls that ask for credentials, with the calls that clients answer."""
        shown["actions"]["requestedAuthConfigs"] = dict(credentials)
        requests = [_credential_request(call_id, config) for call_id, config in credentials.items()]
        said = {name: shown[name] for name in _OF_EVERY_EVENT if name in shown}
        asks = {
            **said,
            "id": f"{event.id}{ASKS}",
            "content": {"role": "user", "parts": [{"functionCall": each} for each in requests]},
            "longRunningToolIds": [each["id"] for each in requests],
            "actions": dict(_NO_ACTIONS),
        }
        return [asks]

    def _asked(self, shown: JsonObject, event: Event, wanted: Mapping[str, JsonObject]) -> list[JsonObject]:
        """The two events behind that of calls that need confirmation; takes what they say out of that one."""
        shown["actions"].pop("requestedToolConfirmations", None)
        rest = [each for each in event.long_running_tool_ids if each not in wanted]
        shown.pop("longRunningToolIds", None)
        if rest:
            shown["longRunningToolIds"] = rest
        calls = {call_id: call for call_id in wanted if (call := self._calls.get(call_id)) is not None}
        said = {name: shown[name] for name in _OF_EVERY_EVENT if name in shown}
        requests = [_request(call_id, call, wanted[call_id]) for call_id, call in calls.items()]
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


_OUR_OWN = "raygrove:"
"""Begins the keys of custom_metadata that raygrove itself writes."""

_NO_ACTIONS: JsonObject = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}}

_OF_EVERY_EVENT = ("invocationId", "author", "timestamp", "branch", "nodeInfo", "isolationScope")


def adk_events(events: Iterable[Event], *, is_over: bool = False, **options: Any) -> list[JsonObject]:
    """The events of a session, or of a turn, which is over or waits with `is_over`: see AdkEvents."""
    view = AdkEvents(**options)
    shown = [shown for event in events for shown in view.shown(event)]
    return [*shown, *view.ended()] if is_over else shown


def _is_silent(event: Event) -> bool:
    """True for a workflow agent's note of how far it is, beside which nothing stands that people read."""
    actions = event.actions
    is_note = actions.agent_state is not None and event.content is None and event.flow is None
    return is_note and not actions.state_delta and not event.custom_metadata


def _told(checkpoints: Iterable[Checkpoint], first: int = 0) -> list[JsonObject]:
    """Checkpoints as ADK stores them, with ids that are the same each time."""
    return [_checkpoint(each, f"{each.of.id}{CHECKPOINT}{number}") for number, each in enumerate(checkpoints, first)]


def _checkpoint(given: Checkpoint, id: str) -> JsonObject:
    told: JsonObject = (
        {} if given.output is not None else {"endOfAgent": True} if given.state is None else {"agentState": given.state}
    )
    shown: JsonObject = {
        "id": id,
        "invocationId": given.of.invocation_id,
        "author": given.author,
        "timestamp": given.of.timestamp,
        "actions": {**_NO_ACTIONS, **told},
    }
    if given.branch is not None:
        shown["branch"] = given.branch
    if given.output is not None:
        shown["output"] = given.output
    return shown | ({"nodeInfo": {"path": given.path}} if given.path else {})


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
        args = call.setdefault("args", {})
        if call.get("name") == REQUEST_INPUT:
            call["args"] = {"interruptId": call.get("id"), "payload": None, "message": None, "response_schema": None, **args}
    if (response := part.get("functionResponse")) is not None:
        response.setdefault("response", {})


def _request(call_id: str, call: FunctionCall, wanted: JsonObject) -> JsonObject:
    return {
        "id": f"{call_id}{SUFFIX}",
        "name": REQUEST_CONFIRMATION,
        "args": {
            "originalFunctionCall": {"id": call_id, "name": call.name or "", "args": call.args or {}},
            "toolConfirmation": {"confirmed": False, **wanted, "hint": wanted.get("hint") or _HINT.format(call.name or "")},
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
