"""What tokens cost, by the prices of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from actors.messages.operating.usage import PER, Price
from actors.rules.accounting.turn_usage import Amounts


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model: the one under its name, or else under the first pattern that its name matches, if any."""
    if model in prices:
        return prices[model]
    return next((price for pattern, price in prices.items() if fnmatchcase(model, pattern)), None)


def cost(used: Amounts, price: Price) -> float:
    """The cost of tokens of one model, in the price's currency."""
    cached = price.input if price.cached_input is None else price.cached_input
    reasoning = price.output if price.reasoning is None else price.reasoning
    return (
        (used.input_tokens - used.cached_tokens) * price.input
        + used.cached_tokens * cached
        + used.output_tokens * price.output
        + used.reasoning_tokens * reasoning
    ) / PER


def currency_of(prices: Mapping[str, Price]) -> str:
    """The currency of the prices; "" without any."""
    return next((price.currency for price in prices.values()), "")
