"""Questions about budgets and consent: their ids, and what answers mean (semantics.md 5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Budget, Content, FunctionCall, FunctionResponse, LlmAgent, LongRunningFunctionTool, Part
from actors.errors import DefinitionError, InvalidMessageError
from actors.layers.spending.rules.budgets import BudgetAnswers
from actors.rules.checks.questions import checked_answer, full_answer, question, refusal, scope_of, without_questions
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp

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


def test_only_a_plain_yes_is_one() -> None:
    assert refusal("pay", {"confirmed": True}) is None
    assert refusal("pay", {"confirmed": False, "reason": "dear"}) == "This tool call is rejected."


@pytest.mark.parametrize("answer", [{}, {"confirmed": "true"}, {"confirmed": 1}, {"confirmed": None}, {"result": True}])
def test_an_answer_that_is_neither_yes_nor_no_is_no_and_says_what_it_should_be(answer: dict[str, Any]) -> None:
    told = refusal("pay", answer)
    assert told is not None
    assert told.startswith('pay was not run: the answer has to be {"confirmed": true} or {"confirmed": false}, not {')


def test_decisions_are_those_on_calls_made_together_with_what_became_of_them() -> None:
    view = History("me")
    for each in (
        event("me", call("c1"), call("c2"), call("c3"), lro=("c1", "c2", "c3")),
        event("me", call("d1"), lro=("d1",)),
        event("user", resp("d1", 0)),
        event("user", resp("c2", 1)),
        event("me", resp("c2", 2)),
        event("user", resp("c1", 3)),
    ):
        view.add(each)
    decided = [
        (made.id, answer.response["result"], settled.response["result"] if settled is not None else None)
        for made, answer, settled, _ in view.user_replies(["c1"])
    ]
    assert decided == [("c1", 3, None), ("c2", 1, 2)]
    assert view.user_replies(["nobody", None]) == []


def test_a_tool_cannot_wait_for_consent_and_for_a_late_result() -> None:
    def pay() -> None:
        """Pay."""

    with pytest.raises(DefinitionError, match=r"'pay'.*not both"):
        LlmAgent(name="root", tools=[LongRunningFunctionTool(pay, require_confirmation=True)])


def test_replies_that_the_agent_has_answered_are_not_given_to_a_later_run_but_a_second_yes_is() -> None:
    view = History("me")
    for each in (event("me", call("c1"), lro=("c1",)), event("user", resp("c1", 1)), event("me", resp("c1", 2))):
        view.add(each)
    assert view.user_replies(["c1"]) == []
    view.add(event("user", resp("c1", 3)))
    assert [made.id for made, *_ in view.user_replies(["c1"])] == ["c1"]
