"""Whether a model call, or calls of tools, fit into a budget.

Rules of this file:

- What counts is what is used, what is reserved for calls under way, and what the next one is likely to take. So budgets are
  overspent by no more than what calls take beyond what was likely: by one call of each agent at most.
- A call is likely to take what the agent's calls of that model took so far on average; the input at least what its request has.
- Calls of tools are checked when they are to be run. They stop no model call: a model may answer without more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from actors.messages.config import Budget
from actors.messages.costs import Price
from actors.messages.llm.model import LlmRequest
from actors.rules.accounting.turn_usage import US, Amounts, Spent

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
