"""The few fields of an encoded event that the Session actor needs, read without decoding the rest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from actors.messages import codec
from actors.messages.codec import encode
from actors.messages.event import USER, Event, Usage
from actors.messages.graph import is_of_tool, node_at
from actors.messages.json_types import JsonObject, Progress, StateDelta
from actors.rules.accounting import Amounts, amounts_of
from actors.rules.checks.questions import scope_of
from actors.rules.routing.pending import EventCalls


class _CallScan(msgspec.Struct, gc=False):
    id: str | None = None
    name: str = ""


class _ResponseScan(msgspec.Struct, gc=False):
    id: str | None = None
    name: str = ""
    # Only its keys are looked at.
    response: dict[str, msgspec.Raw] = {}


class _PartScan(msgspec.Struct, rename="camel", gc=False):
    function_call: _CallScan | None = None
    function_response: _ResponseScan | None = None


class _ContentScan(msgspec.Struct, gc=False):
    role: str = ""
    parts: Sequence[_PartScan] = ()


class _Skipped(msgspec.Struct, gc=False):
    """Nothing of it is read."""


class _ActionsScan(msgspec.Struct, rename="camel", gc=False):
    state_delta: StateDelta = {}
    transfer_to_agent: str | None = None
    agent_state: Progress | None = None
    requested_tool_confirmations: dict[str, JsonObject] = {}
    requested_inputs: dict[str, _Skipped] = {}


class _MetadataScan(msgspec.Struct, gc=False):
    # Programs may store anything under that name.
    steered: Any = None


class _NodeScan(msgspec.Struct, gc=False):
    path: str = ""


class EventScan(msgspec.Struct, rename="camel", gc=False):
    """The part of an event that the Session actor must know. The decoder skips the rest of its bytes.

    Attributes:
        calls: the names of the functions called, by the ids of the calls.
        responses: the ids of the calls to which it has function responses, and the keys of these.
    """

    id: str = ""
    invocation_id: str = ""
    author: str = ""
    timestamp: float = 0.0
    branch: str | None = None
    content: _ContentScan | None = None
    long_running_tool_ids: Sequence[str] = ()
    flow: _Skipped | None = None
    custom_metadata: _MetadataScan | None = None
    node_info: _NodeScan | None = None
    usage: Usage | None = msgspec.field(default=None, name="usageMetadata")
    model_version: str | None = None
    error_code: str | None = None
    duration_s: float | None = None
    # What is found once. No fields of events have such names.
    counted: Amounts | None = msgspec.field(default=None, name="@counted")
    calls: dict[str, str] = msgspec.field(default_factory=dict, name="@calls")
    responses: list[tuple[str, Collection[str]]] = msgspec.field(default_factory=list, name="@responses")
    actions: _ActionsScan = msgspec.field(default_factory=_ActionsScan)

    def about_calls(self) -> EventCalls:
        """The part that is about function calls."""
        return EventCalls(
            self.author,
            self.branch,
            self.calls,
            self.responses,
            self.long_running_tool_ids,
            self.actions.requested_tool_confirmations,
            self.actions.requested_inputs,
            self.flow is not None,
            self.node_path(),
            self.opens(),
        )

    def opens(self) -> bool:
        """True for a message of the user with which a turn begins or goes on: see `Event.steers`."""
        steers = self.custom_metadata is not None and self.custom_metadata.steered is not None
        return self.author == USER and self.branch is None and not steers

    def amounts(self) -> Amounts:
        """The amounts that it counts, computed once."""
        if self.counted is None:
            # A question about a budget is no call of a model.
            counted = sum(not scope_of(call_id) for call_id in self.calls) if self.calls else 0
            self.counted = amounts_of(self.model_version, self.usage, counted, self.duration_s)
        return self.counted

    def node_path(self) -> str:
        """The path of the run of the node that has stored it; "" for any other event."""
        return self.node_info.path if self.node_info is not None else ""

    def for_task(self) -> str:
        """The agent for which the user's words are, since it works on a task with the user; "" for any other event."""
        return node_at(self.node_info.path) if self.author == USER and self.node_info is not None else ""

    def is_said(self) -> bool:
        """True for a response with which a model has gone a step: no question about a budget, and not what a function has said
        that a tool of the agent has run."""
        if self.content is None or self.content.role != "model":
            return False
        if self.node_info is not None and is_of_tool(self.node_info.path) and node_at(self.node_info.path) != self.author:
            return False
        return not (self.long_running_tool_ids and any(map(scope_of, self.long_running_tool_ids)))

    def answered(self) -> Sequence[str]:
        """The ids of the calls to which the event has function responses."""
        return [call_id for call_id, _ in self.responses]

    def tool_results(self) -> list[tuple[str, str]]:
        """The names of the functions that have returned, and how each has ended: `ok`, `failed` or `cancelled`."""
        parts = self.content.parts if self.content is not None else ()
        results = (part.function_response for part in parts)
        return [(given.name, _ended(given.response)) for given in results if given is not None]

    def answer(self, call_id: str) -> JsonObject:
        """Its function response to a call, in full; empty without one."""
        parts = self.content.parts if self.content is not None else ()
        given = [part.function_response for part in parts if part.function_response is not None]
        responses = [each.response for each in given if each.id == call_id]
        return {key: codec.decode(bytes(raw), Any) for key, raw in responses[-1].items()} if responses else {}


def _ended(response: dict[str, msgspec.Raw]) -> str:
    if response.keys() != {"error"}:
        return "ok"
    return "cancelled" if bytes(response["error"]) == _CANCELLED else "failed"


_CANCELLED = encode("cancelled")
"""The error of a call that had no answer when its turn was cancelled."""

_scanner = codec.decoder(EventScan)


def scan(raw: bytes) -> EventScan:
    """Read the fields of an encoded event. Raises msgspec.ValidationError when the bytes are no event."""
    event = _scanner.decode(raw)
    for part in event.content.parts if event.content is not None else ():
        call, given = part.function_call, part.function_response
        if call is not None and call.id:
            event.calls[call.id] = call.name
        if given is not None and given.id:
            event.responses.append((given.id, given.response))
    return event


def new_event(event: Event) -> tuple[bytes, EventScan]:
    """An event that the Session actor itself creates, encoded and scanned."""
    raw = encode(event)
    return raw, scan(raw)
