"""At which use of a budget there is a warning."""

from __future__ import annotations

import pytest

from actors import Budget, BudgetWarning, Price
from actors.layers.spending.rules.at_limit import Account, warning_of
from actors.rules.accounting.turn_usage import Amounts

PRICES = {"m": Price(input=1_000_000, output=0)}
SPENT = {("a", "m"): Amounts(llm_calls=8, tool_calls=4, input_tokens=80, us=4_000_000)}


@pytest.mark.parametrize("budget", [{"llm_calls": 10}, {"tool_calls": 5}, {"tokens": 100}, {"money": 100}, {"seconds": 5}])
def test_there_is_one_from_80_percent_of_any_field_on(budget: dict[str, float]) -> None:
    [(field, limit)] = budget.items()
    account = Account("turn", "the turn", Budget(**budget), SPENT)  # type: ignore[arg-type]
    assert warning_of(account, PRICES) == BudgetWarning(whose="the turn", field=field, limit=limit, used=0.8 * limit)
    more = Budget(**{field: type(limit)(limit + 1)})  # type: ignore[arg-type]
    assert warning_of(account._replace(budget=more), PRICES) is None


def test_a_budget_of_nothing_is_used_up_from_the_start() -> None:
    assert warning_of(Account("turn", "the turn", Budget(llm_calls=0), {}), PRICES) is not None
