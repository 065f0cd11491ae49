"""What happens to a call of a model, or of tools, for which budgets may have no room (semantics.md section 2).

Rules of this file:

- Where a budget names another model, that one is called. The other budgets have to have room for it.
- What no budget would let happen is refused before anybody is asked: an answer would change nothing.
- One question at a time: an agent asks for more of the first budget that is used up, and of the next one when it goes on.
- A call that its run can do without, as that of a summary, is made where all budgets have room for it, by the model that one of
  them names for it. Else it is left out: no question is asked for it, no run fails, and no agent has had its last answer with it.
- A model has to end where budgets say "wrap_up", and answers once more: what its agent does after that is refused. An agent whose
  call a lost Session actor has reserved has had that answer, where more calls are made than the budget has: its heir may have let
  in others beside it. So the budget is exceeded by one call for each agent, whatever is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.errors import NoPriceError
from actors.layers.spending.rules.budgets import Excess, LikelyCall, excess_of_call, excess_of_tools, price_of, used_of
from actors.messages.config import Budget
from actors.messages.costs import BudgetWarning, Price
from actors.rules.accounting.turn_usage import Spent

WARNS_AT = 0.8
"""The share of a budget at whose use plugins and operators hear of it."""


class Account(NamedTuple):
    """A budget, and how far it is used.

    Attributes:
        scope: names it among those of the turn.
        whose: whose it is, in words.
        budget: with what it was raised by.
        spent: what was used of it.
        under_way: the calls that others have under way, and that count for it.
        is_declined: the user was asked for more, and has said no.
        has_ended: the agent has had its last answer.
    """

    scope: str
    whose: str
    budget: Budget
    spent: Spent
    under_way: Sequence[LikelyCall] = ()
    is_declined: bool = False
    has_ended: bool = False


class Allowed(NamedTuple):
    """It is done.

    Attributes:
        call: the call of a model, the one that the agent wanted or another one; None for calls of tools.
        wraps_up: the budgets for which the agent has to end, and how they are used up.
    """

    call: LikelyCall | None = None
    wraps_up: Sequence[tuple[Account, Excess]] = ()


class Refused(NamedTuple):
    """It is not done, and fails the agent's run."""

    account: Account
    excess: Excess


class Questioned(NamedTuple):
    """The user is asked for more."""

    account: Account
    excess: Excess


class LeftOut(NamedTuple):
    """It is not done, and the run goes on."""

    account: Account
    excess: Excess


Decision = Allowed | Refused | Questioned
"""About a call that a run cannot do without."""


def decide_call(
    accounts: Sequence[Account], wanted: Callable[[str], LikelyCall], model: str, prices: Mapping[str, Price]
) -> Decision:
    """Decide about a call of a model. Raises NoPriceError.

    Args:
        wanted: the call, of whichever model.
        model: the agent's.
    """

    def excess(account: Account, call: LikelyCall) -> Excess | None:
        if account.budget.money is not None and price_of(call.model, prices) is None:
            raise NoPriceError(call.agent, call.model)
        return excess_of_call(account.budget, account.spent, account.under_way, call, prices)

    call = wanted(model)
    instead = [account.budget.model for account in accounts if account.budget.model and excess(account, call) is not None]
    if instead:
        call = wanted(instead[0])
    binding = [account for account in accounts if not account.budget.model]
    return _decided(tuple((each, found) for each in binding if (found := excess(each, call)) is not None), call)


def decide_tools(accounts: Sequence[Account], wanted: int) -> Decision:
    """Decide about calls of tools.

    Args:
        wanted: so many of them are not among what is used.
    """
    found = ((each, excess_of_tools(each.budget, each.spent, wanted)) for each in accounts)
    return _decided(tuple((each, excess) for each, excess in found if excess is not None), None)


def if_room(decision: Decision) -> Allowed | LeftOut:
    """The decision about the same call, if the run can do without it."""
    match decision:
        case Allowed(wraps_up=[(account, excess), *_]) | Refused(account, excess) | Questioned(account, excess):
            return LeftOut(account, excess)
        case Allowed():
            return decision


def _decided(exceeded: Sequence[tuple[Account, Excess]], call: LikelyCall | None) -> Decision:
    for account, excess in exceeded:
        if _stops(account):
            return Refused(account, excess)
    for account, excess in exceeded:
        if account.budget.at_limit == "ask":
            return Questioned(account, excess)
    return Allowed(call, exceeded)


def _stops(account: Account) -> bool:
    match account.budget.at_limit:
        case "ask":
            return account.is_declined
        case "wrap_up":
            return account.has_ended
    return True


def is_overdrawn(account: Account) -> bool:
    """True if more calls are made, and under way, than a budget has."""
    limit = account.budget.llm_calls
    made = sum(amounts.llm_calls for amounts in account.spent.values())
    return limit is not None and made + sum(call.likely.llm_calls for call in account.under_way) > limit


def warning_of(account: Account, prices: Mapping[str, Price]) -> BudgetWarning | None:
    """The warning for a budget of which most is used; None for any other."""
    limits = account.budget.limits
    for field, used in used_of(account.budget, account.spent, prices).items():
        if used >= WARNS_AT * limits[field]:
            return BudgetWarning(whose=account.whose, field=field, limit=limits[field], used=round(used, 6))
    return None


def raised(budget: Budget, more: Iterable[Budget | None]) -> Budget:
    """A budget with what was given besides; None: as much again as it had."""
    limits = budget.limits
    for given in more:
        added = (given or budget).limits
        limits = {name: limit + added.get(name, 0) for name, limit in limits.items()}
    return msgspec.structs.replace(budget, **limits)


def end_text(wraps_up: Iterable[tuple[Account, Excess]]) -> str:
    """The words for a model that has to end; "" without a budget that is used up."""
    lines = [
        f"The budget of {account.whose} is used up: of {field}={_number(limit)} there are {_number(max(limit - used, 0))} left."
        for account, (field, limit, used, _) in wraps_up
    ]
    if not lines:
        return ""
    return "\n".join([*lines, "End now: answer with what you have. What you do after this answer is not done any more."])


def facts_of(asked: Questioned, agent: str) -> dict[str, str | float]:
    """The facts of a question for the user."""
    field, limit, used, more = asked.excess
    message = (
        f"Agent {agent} would go beyond the budget of {asked.account.whose}: {field}={_number(limit)}, of which {_number(used)} "
        f"are used, and {_number(more)} more would be. Shall it have as much again?"
    )
    rounded = {"limit": round(limit, 6), "used": round(used, 6), "more": round(more, 6)}
    return {"message": message, "budget": asked.account.whose, "field": field, **rounded}


def _number(amount: float) -> str:
    return f"{amount:,.6g}" if isinstance(amount, float) else str(amount)
