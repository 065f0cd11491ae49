"""What fits into a budget: what is used, under way and wanted together.

What happens to a call for which budgets may have no room.

At which use of a budget there is a warning.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors import Blob, Budget, BudgetWarning, Content, FunctionCall, FunctionResponse, LlmRequest, Part, Price
from actors.layers.spending.rules.budgets import (
    Account,
    Allowed,
    Decision,
    Excess,
    LeftOut,
    LikelyCall,
    Questioned,
    Refused,
    decide_call,
    decide_tools,
    excess_of_call,
    excess_of_tools,
    facts_of,
    if_room,
    is_overdrawn,
    likely_call,
    raised,
    tokens_of,
    warning_of,
)
from actors.rules.accounting import Amounts, Spent

PRICES = {"m": Price(input=1_000_000, output=2_000_000)}
SPENT: Spent = {
    ("a", "m"): Amounts(llm_calls=2, tool_calls=3, input_tokens=100, cached_tokens=20, output_tokens=30, us=4_000_000),
    ("a", ""): Amounts(us=1_000_000),
    ("b", "m"): Amounts(llm_calls=1, input_tokens=10),
}


def wanted(input_tokens: int = 0, agent: str = "a") -> LikelyCall:
    return likely_call(SPENT, agent, "m", input_tokens)


def test_a_call_is_likely_to_take_what_those_of_its_agent_took_on_average() -> None:
    assert wanted().likely == Amounts(llm_calls=1, input_tokens=50, cached_tokens=10, output_tokens=15, us=2_000_000)
    assert wanted(70).likely.input_tokens == 70
    assert wanted(70, agent="new") == LikelyCall("new", "m", Amounts(llm_calls=1, input_tokens=70))


def test_the_last_call_that_fits_is_made_and_the_next_one_is_not() -> None:
    assert excess_of_call(Budget(llm_calls=4), SPENT, [], wanted(), {}) is None
    assert excess_of_call(Budget(llm_calls=3), SPENT, [], wanted(), {}) == Excess("llm_calls", 3, 3, 1)
    assert excess_of_call(Budget(tokens=140 + 65), SPENT, [], wanted(), {}) is None
    assert excess_of_call(Budget(tokens=140 + 64), SPENT, [], wanted(), {}) == Excess("tokens", 204, 140, 65)
    assert excess_of_call(Budget(seconds=7), SPENT, [], wanted(), {}) is None
    assert excess_of_call(Budget(seconds=6.9), SPENT, [], wanted(), {}) == Excess("seconds", 6.9, 5.0, 2.0)


def test_what_is_under_way_counts_as_what_it_is_likely_to_take() -> None:
    assert excess_of_call(Budget(llm_calls=4), SPENT, [wanted()], wanted(), {}) == Excess("llm_calls", 4, 3, 2)


def test_money_is_counted_by_the_price_of_each_model() -> None:
    # 110 tokens of input and 30 of output are used; 50 and 15 are likely.
    assert excess_of_call(Budget(money=250), SPENT, [], wanted(), PRICES) is None
    assert excess_of_call(Budget(money=249), SPENT, [], wanted(), PRICES) == Excess("money", 249, 170, 80)


def test_nothing_is_left_of_a_budget_that_is_used_up_however_little_is_wanted() -> None:
    assert excess_of_call(Budget(tokens=140), SPENT, [], wanted(0, agent="new"), {}) == Excess("tokens", 140, 140, 0)
    assert excess_of_call(Budget(tokens=0), {}, [], wanted(0, agent="new"), {}) == Excess("tokens", 0, 0, 0)


def test_tools_are_counted_with_those_that_are_not_in_the_log_yet() -> None:
    assert excess_of_tools(Budget(tool_calls=3), SPENT, 0) is None
    assert excess_of_tools(Budget(tool_calls=3), SPENT, 1) == Excess("tool_calls", 3, 3, 1)
    assert excess_of_tools(Budget(tokens=1), SPENT, 1) is None


def test_tools_that_are_used_up_stop_no_model() -> None:
    assert excess_of_call(Budget(tool_calls=0), SPENT, [], wanted(), {}) is None


def test_requests_are_measured_by_their_texts_calls_and_data() -> None:
    parts = [
        Part(text="x" * 400),
        Part(function_call=FunctionCall(name="f", args={"a": "y" * 392})),
        Part(function_response=FunctionResponse(name="f", response={"r": "z" * 392})),
        Part(inline_data=Blob(mime_type="image/png", data=b"1" * 10**6)),
    ]
    request = LlmRequest(contents=[Content(role="user", parts=parts)])
    request.system_instruction = "s" * 400
    assert tokens_of(request) == 400 + 300


TWO_PRICES = {"m": Price(input=1_000_000, output=0), "cheap": Price(input=1_000, output=0)}
USED: Spent = {("a", "m"): Amounts(llm_calls=2, tool_calls=3, input_tokens=10)}


def account(scope: str = "turn", is_declined: bool = False, has_ended: bool = False, **budget: Any) -> Account:
    return Account(scope, f"the {scope}", Budget(**budget), USED, is_declined=is_declined, has_ended=has_ended)


def likely(model: str) -> LikelyCall:
    return LikelyCall("a", model, Amounts(llm_calls=1, input_tokens=5))


def decided(*accounts: Account) -> Decision:
    return decide_call(accounts, likely, "m", TWO_PRICES)


def test_where_there_is_room_the_call_is_made() -> None:
    assert decided() == Allowed(likely("m"))
    assert decided(account(llm_calls=3), account(money=15.0)) == Allowed(likely("m"))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({}, Refused),
        ({"at_limit": "ask"}, Questioned),
        ({"at_limit": "ask", "is_declined": True}, Refused),
        ({"at_limit": "wrap_up"}, Allowed),
        ({"at_limit": "wrap_up", "has_ended": True}, Refused),
        ({"model": "cheap"}, Allowed),
    ],
)
def test_where_there_is_none_it_is_as_the_budget_says(field: dict[str, Any], expected: type) -> None:
    decision = decided(account(llm_calls=2, **field))
    assert type(decision) is expected
    if isinstance(decision, Refused | Questioned):
        assert decision.excess == ("llm_calls", 2, 2, 1)


def test_what_no_budget_would_let_happen_is_refused_before_anybody_is_asked() -> None:
    decision = decided(account("session", llm_calls=2, at_limit="ask"), account("user", llm_calls=2))
    assert isinstance(decision, Refused)
    assert decision.account.scope == "user"


def test_a_question_comes_before_the_last_call() -> None:
    decision = decided(account("turn", llm_calls=2, at_limit="wrap_up"), account("session", llm_calls=2, at_limit="ask"))
    assert isinstance(decision, Questioned)
    assert decision.account.scope == "session"


def test_calls_of_tools_are_decided_by_their_own_field() -> None:
    assert decide_tools([account(llm_calls=0, tool_calls=3)], 0) == Allowed()
    assert isinstance(decide_tools([account(tool_calls=3)], 1), Refused)
    assert isinstance(decide_tools([account(tool_calls=3, at_limit="ask")], 1), Questioned)
    assert isinstance(decide_tools([account(tool_calls=3, at_limit="wrap_up")], 1), Allowed)


def test_a_budget_is_raised_by_what_was_given_or_by_itself() -> None:
    budget = Budget(tokens=100, money=1.0, at_limit="ask")
    assert raised(budget, []) == budget
    assert raised(budget, [None]) == Budget(tokens=200, money=2.0, at_limit="ask")
    assert raised(budget, [Budget(tokens=5), None, Budget(llm_calls=7)]) == Budget(tokens=205, money=2.0, at_limit="ask")


def test_the_user_is_shown_how_much_is_used_and_wanted() -> None:
    decision = decided(account(tokens=12, at_limit="ask"))
    assert isinstance(decision, Questioned)
    facts = facts_of(decision, "a")
    assert (facts["budget"], facts["field"], facts["limit"], facts["used"], facts["more"]) == ("the turn", "tokens", 12, 10, 5)
    assert "tokens=12, of which 10 are used, and 5 more would be" in str(facts["message"])


@pytest.mark.parametrize("field", [{}, {"at_limit": "ask"}, {"at_limit": "wrap_up"}])
def test_a_call_that_can_be_done_without_is_left_out_where_there_is_no_room(field: dict[str, Any]) -> None:
    used_up = account("session", llm_calls=2, **field)
    left_out = if_room(decided(account(llm_calls=9), used_up))
    assert isinstance(left_out, LeftOut)
    assert left_out.account == used_up


def test_a_call_that_can_be_done_without_is_made_where_there_is_room_perhaps_by_another_model() -> None:
    assert if_room(decided(account(llm_calls=3))) == Allowed(likely("m"))
    assert if_room(decided(account(llm_calls=2, model="cheap"))) == Allowed(likely("cheap"))
    assert isinstance(if_room(decided(account(llm_calls=2, model="cheap"), account("user", llm_calls=2))), LeftOut)


@pytest.mark.parametrize(("limit", "under_way", "expected"), [(2, 0, False), (2, 1, True), (3, 1, False), (1, 0, True)])
def test_a_budget_is_overdrawn_by_calls_that_are_made_and_under_way(limit: int, under_way: int, expected: bool) -> None:
    assert is_overdrawn(account(llm_calls=limit)._replace(under_way=[likely("m")] * under_way)) is expected
    assert not is_overdrawn(account(tokens=1))


INPUT_PRICES = {"m": Price(input=1_000_000, output=0)}
NEARLY = {("a", "m"): Amounts(llm_calls=8, tool_calls=4, input_tokens=80, us=4_000_000)}


@pytest.mark.parametrize("budget", [{"llm_calls": 10}, {"tool_calls": 5}, {"tokens": 100}, {"money": 100}, {"seconds": 5}])
def test_there_is_one_from_80_percent_of_any_field_on(budget: dict[str, float]) -> None:
    [(field, limit)] = budget.items()
    account = Account("turn", "the turn", Budget(**budget), NEARLY)  # type: ignore[arg-type]
    assert warning_of(account, INPUT_PRICES) == BudgetWarning(whose="the turn", field=field, limit=limit, used=0.8 * limit)
    more = Budget(**{field: type(limit)(limit + 1)})  # type: ignore[arg-type]
    assert warning_of(account._replace(budget=more), INPUT_PRICES) is None


def test_a_budget_of_nothing_is_used_up_from_the_start() -> None:
    assert warning_of(Account("turn", "the turn", Budget(llm_calls=0), {}), INPUT_PRICES) is not None
