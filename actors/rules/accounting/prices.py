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
