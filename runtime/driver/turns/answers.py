"""The message that answers calls which wait for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.errors import RequestError, TurnStateError
from actors.layers.listing.messages import PendingCall
from actors.messages.codec import plain
from actors.messages.content import Content, FunctionResponse, Part
from actors.messages.json_types import JsonObject
from actors.rules.checks.ids import checked_id
from actors.rules.checks.questions import CONFIRMED, full_answer, scope_of

Answers = Mapping[str, object]
"""Answers by the id of the call."""


def to_answers(call: str | PendingCall | Answers, response: object, confirmed: bool | None) -> dict[str, object]:
    """The answers that a program gives: one with `response` or `confirmed`, or several in a mapping.

    Raises:
        RequestError: there is no answer, or more than one way to give it.
        InvalidIdError: the id of a call is none.
    """
    if confirmed is not None and not isinstance(confirmed, bool):
        raise RequestError(f"confirmed must be True or False, not {type(confirmed).__name__}")
    if isinstance(call, Mapping):
        if response is not None or confirmed is not None:
            raise RequestError("a mapping of call ids has the answers itself: give neither response nor confirmed with it")
        if not call:
            raise RequestError("there is no answer: the mapping of call ids is empty")
        return {checked_id("call id", call_id): answer for call_id, answer in call.items()}
    if (response is None) == (confirmed is None):
        raise RequestError(
            "an answer is either response=…, the result of the call, or confirmed=True or False: rt.answer(call_id, response=…, "
            "user_id=…, session_id=…)"
        )
    call_id = checked_id("call id", call.call_id if isinstance(call, PendingCall) else call)
    return {call_id: response if confirmed is None else {CONFIRMED: confirmed}}


def to_message(answers: Answers, pending: Sequence[PendingCall], session_id: str) -> Content:
    """One message with all answers.

    Args:
        pending: the calls that wait in the session.

    Raises:
        TurnStateError: an answer is for a call that does not wait.
        RequestError: an answer gives consent where a question is asked, or the calls are of several turns.
        InvalidMessageError: an answer to a question about a budget gives nothing, or not of what is used up.
        NotEncodableError: an answer cannot be stored.
    """
    waiting = {call.call_id: call for call in pending}
    wrong = [call_id for call_id in answers if call_id not in waiting]
    if wrong:
        known = ", ".join(f"{call.call_id!r} ({call.name} of agent {call.agent!r})" for call in pending) or "none"
        raise TurnStateError(f"call {wrong[0]!r} waits for no answer in session {session_id!r}. Calls that wait: {known}")
    turns = {waiting[call_id].invocation_id for call_id in answers}
    if len(turns) > 1:
        raise RequestError(f"the calls are of the turns {', '.join(sorted(turns))}: one message continues one turn")
    parts = [
        Part(
            function_response=FunctionResponse(
                id=call_id, name=waiting[call_id].name, response=_response(waiting[call_id], answer)
            )
        )
        for call_id, answer in answers.items()
    ]
    return Content(role="user", parts=parts)


def _response(call: PendingCall, answer: object) -> JsonObject:
    if isinstance(answer, bool) and call.is_confirmation:
        return {CONFIRMED: answer}
    if scope_of(call.call_id):
        # Before it is encoded: what is no amount at all has no wire form either.
        given = dict(answer) if isinstance(answer, Mapping) else {"result": answer}
        _ = full_answer(call.call_id, given, str(call.args.get("field", "")))
    value = plain(answer)
    if call.question is not None and not call.is_confirmation and isinstance(value, dict) and list(value) == [CONFIRMED]:
        raise RequestError(f"call {call.call_id!r} of {call.name} asks a question, and needs no consent: answer with response=…")
    return value if isinstance(value, dict) else {"result": value}
