"""Whether calls of models and of tools fit into budgets, and what happens where they may not (semantics.md section 2).

Rules of room:

- What counts is what is used, what is reserved for calls under way, and what the next one is likely to take. So budgets are
  overspent by no more than what calls take beyond what was likely: by one call of each agent at most.
- A call is likely to take what the agent's calls of that model took so far on average; the input at least what its request has.
- Calls of tools are checked when they are to be run. They stop no model call: a model may answer without more of them.

Rules of calls for which there may be no room:

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
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from actors.errors import NoPriceError
from actors.messages.config import Budget
from actors.messages.costs import BudgetWarning, Price
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest
from actors.rules.accounting import US, Amounts, Spent
from actors.rules.checks.questions import CONFIRMED, more_of

PER = 1_000_000
"""Prices are for so many tokens."""

UNITS_PER_TOKEN = 4
"""Characters of text that make about one token."""

DATA_TOKENS = 300
"""About how many tokens a picture takes, or other data."""


def tokens_of(request: LlmRequest) -> int:
    """About how many tokens a request has."""
    units, data = len(request.system_instruction), 0
    for content in request.contents:
        for part in content.parts or ():
            units += len(part.text or "")
            if part.function_call is not None:
                units += len(str(part.function_call.args))
            elif part.function_response is not None:
                units += len(str(part.function_response.response))
            elif part.inline_data is not None or part.file_data is not None:
                data += 1
    return units // UNITS_PER_TOKEN + data * DATA_TOKENS


class LikelyCall(NamedTuple):
    """A model call of an agent that is about to be made, or is under way, with what it is likely to take."""

    agent: str
    model: str
    likely: Amounts


class Excess(NamedTuple):
    """How a budget would be exceeded: by which field, its limit, how much is used, and how much more would be."""

    field: str
    limit: float
    used: float
    more: float


def likely_call(spent: Spent, agent: str, model: str, input_tokens: int) -> LikelyCall:
    """The call that an agent is about to make.

    Args:
        spent: what was used so far.
        input_tokens: about how many its request has.
    """
    before = spent.get((agent, model))
    if before is None or not before.llm_calls:
        return LikelyCall(agent, model, Amounts(llm_calls=1, input_tokens=input_tokens))
    average = Amounts(*(amount // before.llm_calls for amount in before))
    given = max(average.input_tokens, input_tokens)
    cached = min(average.cached_tokens, given)
    return LikelyCall(agent, model, average._replace(llm_calls=1, tool_calls=0, input_tokens=given, cached_tokens=cached))


def excess_of_call(
    budget: Budget, spent: Spent, under_way: Iterable[LikelyCall], wanted: LikelyCall, prices: Mapping[str, Price]
) -> Excess | None:
    """The way in which a model call would exceed a budget; None if it may be made."""
    used = _sum(spent.values())
    calls = [*under_way, wanted]
    more = _sum(call.likely for call in calls)
    checks: list[tuple[str, float | None, float, float]] = [
        ("llm_calls", budget.llm_calls, used.llm_calls, more.llm_calls),
        ("tokens", budget.tokens, _tokens(used), _tokens(more)),
        ("seconds", budget.seconds, used.us / US, more.us / US),
    ]
    if budget.money is not None:
        paid = sum(_cost(model, amounts, prices) for (_, model), amounts in spent.items())
        checks.append(("money", budget.money, paid, sum(_cost(call.model, call.likely, prices) for call in calls)))
    for field, limit, taken, likely in checks:
        if limit is not None and (taken + likely > limit or taken >= limit):
            return Excess(field, limit, taken, likely)
    return None


def used_of(budget: Budget, spent: Spent, prices: Mapping[str, Price]) -> dict[str, float]:
    """The amounts that are used, by the fields that a budget limits. A model without a price costs nothing."""
    used = _sum(spent.values())
    amounts: dict[str, float] = {
        "tokens": _tokens(used),
        "llm_calls": used.llm_calls,
        "tool_calls": used.tool_calls,
        "seconds": used.us / US,
    }
    if budget.money is not None:
        amounts["money"] = sum(_cost(model, each, prices) for (_, model), each in spent.items())
    return {name: amounts[name] for name in budget.limits}


def excess_of_tools(budget: Budget, spent: Spent, wanted: int) -> Excess | None:
    """The way in which calls of tools that are about to be run would exceed a budget; None if they may be.

    Args:
        wanted: so many of them are not among what is used.
    """
    used = sum(amounts.tool_calls for amounts in spent.values())
    limit = budget.tool_calls
    return Excess("tool_calls", limit, used, wanted) if limit is not None and used + wanted > limit else None


def _cost(model: str, amounts: Amounts, prices: Mapping[str, Price]) -> float:
    price = price_of(model, prices)
    return cost(amounts, price) if price is not None else 0.0


def _tokens(amounts: Amounts) -> int:
    return amounts.input_tokens + amounts.output_tokens + amounts.reasoning_tokens


def _sum(found: Iterable[Amounts]) -> Amounts:
    whole = Amounts()
    for amounts in found:
        whole = whole.plus(amounts)
    return whole


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model: the one under its name, or else under the first pattern that its name matches, if any."""
    if model in prices:
        return prices[model]
    return next((price for pattern, price in prices.items() if fnmatchcase(model, pattern)), None)


def cost(used: Amounts, price: Price) -> float:
    """The cost of tokens of one model, in the price's currency."""
    cached = price.input if price.cached_input is None else price.cached_input
    reasoning = price.output if price.reasoning is None else price.reasoning
    _, _, given, from_cache, output, thought, _ = used
    return ((given - from_cache) * price.input + from_cache * cached + output * price.output + thought * reasoning) / PER


def weights(price: Price) -> Mapping[str, float]:
    """By how much each field of Amounts adds to the cost, in millionths of the price's currency: see `cost`."""
    return {
        "input_tokens": price.input,
        "cached_tokens": 0.0 if price.cached_input is None else price.cached_input - price.input,
        "output_tokens": price.output,
        "reasoning_tokens": price.output if price.reasoning is None else price.reasoning,
    }


def currency_of(prices: Mapping[str, Price]) -> str:
    """The currency of the prices; "" without any."""
    return next((price.currency for price in prices.values()), "")


class BudgetAnswers:
    """What the user has answered in a turn who was asked for more of one budget.

    Answers in one message count once: agents that ran side by side have asked for the same.

    Attributes:
        more: what was given, in order; None: as much again.
        declined_seq: the position of the newest no; 0 without one.
    """

    def __init__(self) -> None:
        self.more: list[Budget | None] = []
        self.declined_seq = 0
        self._seq = 0

    def note(self, seq: int, answer: JsonObject) -> None:
        """Take in an answer that stands in the message at `seq`."""
        if answer.get(CONFIRMED) is not True:
            self.declined_seq = seq
            return
        if seq == self._seq:
            return
        self._seq = seq
        try:
            self.more.append(more_of(answer))
        except (TypeError, ValueError):
            # It came past the check of messages.
            self.declined_seq = seq


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
