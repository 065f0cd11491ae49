"""The user's consent to a run of a function (semantics.md section 8)."""

from __future__ import annotations

import msgspec

from actors.layers.graphs.behaviour.function_node import INPUT, ended, question
from actors.layers.graphs.behaviour.results import NodeEnd, NodePlace
from actors.layers.graphs.definitions.nodes import FunctionNode
from actors.layers.graphs.definitions.tool_node import ToolNode
from actors.messages.codec import plain
from actors.messages.event import Event
from actors.messages.graph import NodeInfo
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.rules.checks.confirmation import REJECTED

_SCHEMA: JsonObject = {
    "title": "ToolConfirmation",
    "type": "object",
    "properties": {"confirmed": {"type": "boolean"}, "hint": {"type": "string"}, "payload": {}},
    "required": ["confirmed"],
}


def consent_id(invocation_id: str, path: str) -> str:
    """The id of the question whether a run may be: as google-adk's, but that of one turn only."""
    return f"wf_tool_confirmation:{invocation_id} {path}"


def asked_consent(call_id: str, place: NodePlace, node: FunctionNode, state: JsonMapping) -> NodeEnd:
    """The pause of a run that the user has to agree to: the question shows what the function would be given."""
    message = f"Please approve or reject the tool call {node.name}()"
    if isinstance(node, ToolNode):
        given = node.arguments(place.given, state)
        message += " by responding with a FunctionResponse with an expected ToolConfirmation payload"
    else:
        given = {name: place.given if name == INPUT else state.get(name) for name in node.parameters}
    args: JsonObject = {
        "message": f"{message}.",
        "payload": {"tool_name": node.name, "args": plain(given)},
        "response_schema": _SCHEMA,
    }
    info = NodeInfo(path=place.info.path)
    return NodeEnd([msgspec.structs.replace(question(call_id, args), branch=place.branch, node_info=info)], waits=[call_id])


def is_agreed(answer: JsonValue) -> bool:
    """True for an answer that agrees."""
    return isinstance(answer, dict) and answer.get("confirmed") is True


def refused(place: NodePlace) -> NodeEnd:
    """The end of a run that the user does not want: its output says so."""
    output: JsonObject = {"error": REJECTED}
    return NodeEnd([ended(Event(branch=place.branch, node_info=place.info, output=output))], output)
