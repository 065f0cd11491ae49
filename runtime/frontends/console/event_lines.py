"""Events, and limits of budgets, as short lines of text, for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from actors.layers.spending.messages import UsedBudget
from actors.layers.workflows.rules import decision_text
from actors.messages.content import FunctionCall, FunctionResponse, Part
from actors.messages.event import RESET, Event
from actors.messages.flow import FlowMark
from actors.rules.routing.transfer import TRANSFER_TOOL

Kind = Literal[
    "text",
    "thought",
    "call",
    "response",
    "transfer",
    "data",
    "state",
    "error",
    "traceback",
    "rewind",
    "task",
    "turn",
    "supervision",
]


def event_lines(event: Event, /) -> Iterator[tuple[Kind, str]]:
    """Yield what an event says and does, in order: for each a kind and a text.

    A transfer stands in place of the response of its tool. An event without content and actions yields nothing.
    """
    transfer = event.actions.transfer_to_agent
    for part in event.content.parts if event.content is not None else ():
        if not (transfer and part.function_response is not None and part.function_response.name == TRANSFER_TOOL):
            yield from _part(part)
    if transfer:
        yield "transfer", f"to {transfer}"
    for key, value in event.actions.state_delta.items():
        yield "state", f"{key} is gone" if value is None else f"{key} = {_json(value)}"
    if event.flow is not None:
        yield from _flow(event.author, event.flow)
    if event.actions.rewind_before_invocation_id:
        yield "rewind", f"to before turn {event.actions.rewind_before_invocation_id}"
    if event.custom_metadata and isinstance(reset := event.custom_metadata.get(RESET), dict):
        yield "rewind", f"to event {reset.get('eventId')} of turn {reset.get('invocationId')}"
    if (decision := decision_text(event)) is not None:
        yield "supervision", decision
    if event.error_code:
        yield "error", f"{event.error_code}: {event.error_message or ''}"
    for line in (event.error_traceback or "").splitlines():
        yield "traceback", line


def _flow(author: str, mark: FlowMark) -> Iterator[tuple[Kind, str]]:
    for node in mark.created:
        yield "task", f"{node.name}: {node.objective}"
    if mark.ready:
        yield "task", f"ready: {', '.join(mark.ready)}"
    for task, change in mark.changes.items():
        detail = change.reason or (_json(change.result) if change.result is not None else "")
        yield "task", f"{task} is {change.status}: {detail}" if detail else f"{task} is {change.status}"
    for agent, tasks in mark.turns.items():
        yield "turn", f"{agent} works on {', '.join(tasks)}"
    if mark.stopped and not mark.created:
        yield "task", f"{author} stops early: {mark.stopped}"
    if mark.ends_turn:
        yield "turn", f"{author} hands over to {mark.next_agent}" if mark.next_agent else f"{author} ends its turn"


def _part(part: Part) -> Iterator[tuple[Kind, str]]:
    if part.text:
        yield "thought" if part.thought else "text", part.text
    if part.function_call is not None:
        yield "call", written_call(part.function_call)
    if part.function_response is not None:
        yield "response", _response(part.function_response)
    if part.inline_data is not None:
        yield "data", f"{len(part.inline_data.data)} bytes of {part.inline_data.mime_type or 'unknown type'}"
    if part.file_data is not None:
        yield "data", part.file_data.file_uri or "a file"
    if part.executable_code is not None:
        yield "call", part.executable_code.code or ""
    if part.code_execution_result is not None:
        yield "response", part.code_execution_result.output or ""


def written_call(call: FunctionCall) -> str:
    """A call in a line, as one writes it."""
    return f"{call.name}({', '.join(f'{name}={_json(value)}' for name, value in call.args.items())})"


def _response(response: FunctionResponse) -> str:
    result = response.response
    return f"{response.name}: {_json(result['result'] if set(result) == {'result'} else result)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def budget_line(budget: UsedBudget) -> str:
    """Tell how far one limit of a budget is used, and what happens then."""
    then = f"then the model {budget.model!r}" if budget.model else f"then {budget.at_limit}"
    share = f"{100 * budget.used / budget.limit:.0f} % " if budget.limit else ""
    return f"{share}of {budget.whose}: {budget.field} {_number(budget.used)} of {_number(budget.limit)}, {then}"


def _number(amount: float) -> str:
    return f"{amount:,.6f}".rstrip("0").rstrip(".")
