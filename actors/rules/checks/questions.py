"""Questions that agents ask the user by calls, and what the user's answers mean (semantics.md section 2, 5.6).

Rules of this file:

- Consent to a call is `{"confirmed": true}`; every other answer is a refusal.
- Toolsets ask for credentials by a call of the agent. No model sees it.
- The question whether a turn gets more of a budget is a call of the agent that needs consent. Models see neither the call nor
  what comes of it. Its id names the budget, so the log says which one was raised without a look at the question. Yes gives as
  much again as the budget has. `{"confirmed": true, "payload": {"tokens": 5000}}`, or the payload alone, gives that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actors.errors import InvalidMessageError
from actors.messages.config import Budget
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event, EventActions
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
