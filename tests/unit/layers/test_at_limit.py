"""What happens to a call for which budgets may have no room."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Budget, Price
from actors.errors import NoPriceError
from actors.layers.spending.rules.at_limit import (
    Account,
    Allowed,
    Decision,
    LeftOut,
    Questioned,
    Refused,
    decide_call,
    decide_tools,
    end_text,
    facts_of,
    if_room,
    is_overdrawn,
    raised,
)
from actors.layers.spending.rules.budgets import LikelyCall
from actors.rules.accounting.turn_usage import Amounts, Spent

PRICES = {"m": Price(input=1_000_000, output=0), "cheap": Price(input=1_000, output=0)}
SPENT: Spent = {("a", "m"): Amounts(llm_calls=2, tool_calls=3, input_tokens=10)}


def account(scope: str = "turn", is_declined: bool = False, has_ended: bool = False, **budget: Any) -> Account:
    return Account(scope, f"the {scope}", Budget(**budget), SPENT, is_declined=is_declined, has_ended=has_ended)


def likely(model: str) -> LikelyCall:
    return LikelyCall("a", model, Amounts(llm_calls=1, input_tokens=5))


def decided(*accounts: Account) -> Decision:
    return decide_call(accounts, likely, "m", PRICES)


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


def test_the_other_model_has_to_fit_into_the_other_budgets() -> None:
    instead = account("turn", llm_calls=2, model="cheap")
    assert decided(instead, account("session", money=10.1)) == Allowed(likely("cheap"))
    # The agent's own model would not fit into either.
    assert isinstance(decided(instead, account("session", money=10.001)), Refused)
    assert decided(account("turn", llm_calls=9, model="cheap"), account("session", llm_calls=9)) == Allowed(likely("m"))


def test_a_model_without_a_price_fits_into_no_budget_of_money() -> None:
    with pytest.raises(NoPriceError, match="free"):
        decided(account("turn", llm_calls=2, model="free"), account("session", money=100))
    # What is called at the limit of a budget is not bounded by it.
    assert decided(account(money=1, model="free")) == Allowed(likely("free"))


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


def test_a_model_is_told_which_budgets_are_used_up_and_what_is_left() -> None:
    decision = decided(account("turn", tokens=12, at_limit="wrap_up"), account("session", llm_calls=2, at_limit="wrap_up"))
    assert isinstance(decision, Allowed)
    text = end_text(decision.wraps_up)
    assert "The budget of the turn is used up: of tokens=12 there are 2 left." in text
    assert "The budget of the session is used up: of llm_calls=2 there are 0 left." in text
    assert end_text([]) == ""


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
