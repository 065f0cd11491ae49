"""Questions about budgets: their ids, and what answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Budget, Content, FunctionCall, FunctionResponse, Part
from actors.errors import InvalidMessageError
from actors.layers.spending.rules.budgets import BudgetAnswers
from actors.rules.checks.questions import checked_answer, full_answer, question, scope_of, without_questions

CALL = question("turn", "0a", {}).long_running_tool_ids[0]


def given(answer: dict[str, Any], call_id: str = CALL) -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name="raygrove_request_budget", response=answer))


@pytest.mark.parametrize("scope", ["turn", "session", "user", "agent:research-team"])
def test_the_id_of_a_question_names_the_scope(scope: str) -> None:
    event = question(scope, "1b", {"message": "more?"})
    [call] = event.function_calls()
    assert scope_of(call.id) == scope
    assert event.long_running_tool_ids == (call.id,)
    assert list(event.actions.requested_tool_confirmations) == [call.id]
    assert question(scope, "2c", {}).long_running_tool_ids != event.long_running_tool_ids


@pytest.mark.parametrize("call_id", [None, "", "call-1", "budget-", "budgetary"])
def test_other_ids_name_none(call_id: str | None) -> None:
    assert scope_of(call_id) == ""


@pytest.mark.parametrize(
    ("answer", "full"),
    [
        ({"confirmed": True}, {"confirmed": True}),
        ({"confirmed": False}, {"confirmed": False}),
        ({"tokens": 5}, {"confirmed": True, "payload": {"tokens": 5}}),
        ({"confirmed": True, "payload": {"money": 0.5}}, {"confirmed": True, "payload": {"money": 0.5}}),
    ],
)
def test_an_answer_gets_its_full_form(answer: dict[str, Any], full: dict[str, Any]) -> None:
    response = checked_answer(given(answer)).function_response
    assert response is not None
    assert response.response == full


@pytest.mark.parametrize(
    "answer", [{}, {"result": 5}, {"confirmed": 1}, {"tokens": -1}, {"confirmed": True, "payload": 5}, {"at_limit": "ask"}]
)
def test_what_is_no_answer_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError, match="so much more"):
        checked_answer(given(answer))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"llm_calls": 0, "tokens": 0}, "it gives nothing"),
        ({"tokens": 5}, "it gives no more of llm_calls, which is used up"),
        ({"confirmed": True, "llm_calls": 5}, "'llm_calls' stands beside confirmed, and not in payload"),
        ({"llm_calls": 10**30}, "Budget.llm_calls must be 9007199254740992 at most"),
    ],
)
def test_an_answer_that_would_be_asked_for_again_says_why_it_is_none(answer: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidMessageError, match=why):
        full_answer(CALL, answer, "llm_calls")
    assert full_answer(CALL, {"confirmed": True, "payload": {"llm_calls": 1}, "hint": "?"}, "llm_calls")["confirmed"] is True


def test_answers_to_other_calls_are_left_alone() -> None:
    assert checked_answer(given({"anything": 1}, "call-1")) == given({"anything": 1}, "call-1")
    assert checked_answer(Part(text="hi")) == Part(text="hi")


def test_answers_in_one_message_count_once_and_a_no_is_remembered() -> None:
    answers = BudgetAnswers()
    for seq, answer in [(5, {"tokens": 1}), (5, {"tokens": 1}), (9, None)]:
        answers.note(seq, {"confirmed": True, "payload": answer})
    assert answers.more == [Budget(tokens=1), None]
    assert answers.declined_seq == 0
    answers.note(12, {"confirmed": False})
    answers.note(14, {"confirmed": True, "payload": {"tokns": 1}})
    assert (answers.more[2:], answers.declined_seq) == ([], 14)


def test_models_see_no_part_of_a_question() -> None:
    asked = Content(role="model", parts=[Part(text="hm"), Part(function_call=FunctionCall(id=CALL, name="x", args={}))])
    other = Content(role="user", parts=[given({}, "call-1")])
    shown = without_questions([asked, Content(role="user", parts=[given({})]), other])
    assert shown == [Content(role="model", parts=[Part(text="hm")]), other]
