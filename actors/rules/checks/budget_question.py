"""The question whether a turn gets more of a budget, and what the user's answer means (semantics.md section 2).

Rules of this file:

- The question is a call of the agent that needs consent. Models see neither the call nor what comes of it.
- Its id names the budget, so the log says which one was raised without a look at the question.
- Yes gives as much again as the budget has. `{"confirmed": true, "payload": {"tokens": 5000}}`, or the payload alone, gives that.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.errors import InvalidMessageError
from actors.messages.config import Budget
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import Event, EventActions
from actors.messages.json_types import JsonObject
from actors.rules.checks.confirmation import CONFIRMED, PAYLOAD

REQUEST_BUDGET = "raygrove_request_budget"
"""The name of the call."""

_PREFIX = "budget-"
_FIELDS = (CONFIRMED, PAYLOAD, "hint")
"""The fields of an answer: those of ADK's ToolConfirmation."""


def scope_of(call_id: str | None) -> str:
    """The scope of the budget that a question is about, as in RunConfig.scoped_budgets; "" for the id of any other call."""
    if not call_id or not call_id.startswith(_PREFIX):
        return ""
    return call_id[len(_PREFIX) :].rpartition("-")[0]


def question(scope: str, unique: str, facts: JsonObject) -> Event:
    """The event that asks.

    Args:
        scope: of the budget.
        unique: no other question has it; without "-".
        facts: what the user is shown.
    """
    call_id = f"{_PREFIX}{scope}-{unique}"
    return Event(
        content=Content(role="model", parts=[Part(function_call=FunctionCall(id=call_id, name=REQUEST_BUDGET, args=facts))]),
        long_running_tool_ids=(call_id,),
        actions=EventActions(requested_tool_confirmations={call_id: {CONFIRMED: False}}),
    )


def checked_answer(part: Part) -> Part:
    """A part of a message, in which an answer to such a question has its full form. Raises InvalidMessageError."""
    response = part.function_response
    if response is None or not scope_of(response.id):
        return part
    full = full_answer(response.id or "", response.response)
    return Part(function_response=FunctionResponse(id=response.id, name=response.name, response=full))


def full_answer(call_id: str, answer: JsonObject, field: str = "") -> JsonObject:
    """An answer to such a question in its full form.

    Args:
        field: the field of the budget that is used up, where it is known: the answer has to give more of it.

    Raises:
        InvalidMessageError: it is none, and says what an answer is.
    """
    full: JsonObject = answer if CONFIRMED in answer else {CONFIRMED: True, PAYLOAD: answer}
    try:
        _check_full(full, field)
    except (TypeError, ValueError) as error:
        more = f'{{"{field or "tokens"}": 5000}}'
        right = f'{{"{CONFIRMED}": false}}, {{"{CONFIRMED}": true}} for as much again, or so much more: {more}'
        raise InvalidMessageError(f"the answer to {call_id!r} is none: {error}. It has to be {right}") from None
    return full


def _check_full(full: JsonObject, field: str) -> None:
    """Raises ValueError, TypeError."""
    if not isinstance(full[CONFIRMED], bool):
        raise ValueError(f"{CONFIRMED} is true or false")
    beside = [name for name in full if name not in _FIELDS]
    if beside:
        raise ValueError(f"{beside[0]!r} stands beside {CONFIRMED}, and not in {PAYLOAD}")
    more = more_of(full) if full[CONFIRMED] else None
    if more is None:
        return
    if not any(more.limits.values()):
        raise ValueError("it gives nothing")
    if field and not more.limits.get(field):
        raise ValueError(f"it gives no more of {field}, which is used up")


def more_of(answer: JsonObject) -> Budget | None:
    """The amounts that an answer gives; None for as much again. Raises ValueError, TypeError."""
    payload = answer.get(PAYLOAD)
    if payload is None:
        return None
    if not isinstance(payload, dict):
        raise ValueError(f"{PAYLOAD} has fields of Budget")
    more = Budget(**payload)
    if more.at_limit != "stop" or more.model:
        raise ValueError("what happens at the limit stays as it is")
    return more


def without_questions(contents: Iterable[Content]) -> list[Content]:
    """The contents as models see them."""
    shown = []
    for content in contents:
        kept = [part for part in content.parts if not _is_question(part)]
        if len(kept) == len(content.parts):
            shown.append(content)
        elif kept:
            shown.append(Content(role=content.role, parts=kept))
    return shown


def _is_question(part: Part) -> bool:
    call = part.function_call or part.function_response
    return call is not None and bool(scope_of(call.id))
