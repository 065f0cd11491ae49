"""Reports of usage: by what they are listed, and what tokens cost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Price
from actors.errors import DefinitionError
from actors.layers.spending.messages import MOST_TURNS, UsageReport, UsageSums
from actors.layers.spending.rules.budgets import cost, price_of
from actors.layers.spending.rules.report import CostlyTurns, UsageCollector, day_of
from actors.rules.accounting import Amounts, Spent, packed

TURN = packed(
    {
        ("writer", "large"): Amounts(llm_calls=1, input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000),
        ("writer", ""): Amounts(us=2_000_000),
        ("editor", "small"): Amounts(llm_calls=2, tool_calls=3, reasoning_tokens=500_000),
    }
)
PRICES = {"large": Price(input=10, cached_input=1, output=50), "sm*": Price(input=1, output=2, reasoning=4)}


def report(by: str, prices: dict[str, Price] = PRICES, group: str = "") -> UsageReport:
    collector = UsageCollector(by, prices)
    collector.add(group, [TURN])
    return collector.report()


def test_money_is_the_sum_over_models_with_their_prices() -> None:
    total = report("").total
    assert total.money == pytest.approx(6 + 0.4 + 5 + 2)
    assert (total.llm_calls, total.tool_calls, total.tokens, total.seconds) == (3, 3, 1_600_000, 2.0)


def test_agents_and_models_have_sums_of_their_own() -> None:
    by_agent, by_model = report("agent").groups, report("model").groups
    assert list(by_agent) == ["editor", "writer"]
    assert by_agent["writer"].money == pytest.approx(11.4)
    assert by_agent["writer"].seconds == 2.0
    assert list(by_model) == ["", "large", "small"]
    assert (by_model[""].money, by_model[""].seconds) == (None, 2.0)
    assert by_model["small"].money == pytest.approx(2)


def costly(turns: Mapping[str, Spent], most: int = MOST_TURNS, pages: int = 1) -> list[tuple[str, UsageSums]]:
    collector = UsageCollector("turn", PRICES)
    found = CostlyTurns[str](PRICES, most, collector.sums)
    names = list(turns)
    for page in range(pages):
        raws = [packed(turns[name]) for name in names[page::pages]]
        found.add(raws, names[page::pages])
    return list(found.found())


def test_turns_without_a_price_come_after_the_others_by_their_tokens() -> None:
    turns: dict[str, Spent] = {
        name: {("w", model): Amounts(llm_calls=1, input_tokens=tokens)}
        for name, model, tokens in (("a", "free", 10), ("b", "free", 900), ("c", "large", 1))
    }
    assert [(name, sums.money is None) for name, sums in costly(turns)] == [("c", False), ("b", True), ("a", True)]
    assert [name for name, _ in costly(turns, most=2)] == ["c", "b"]


def test_of_equal_turns_the_first_are_listed() -> None:
    turns: dict[str, Spent] = {f"e-{number}": {("w", "free"): Amounts(llm_calls=1, output_tokens=5)} for number in range(9)}
    assert [name for name, _ in costly({**turns, "more": {("w", "free"): Amounts(output_tokens=6)}}, most=3)] == [
        "more",
        "e-0",
        "e-1",
    ]
    assert costly({}) == []
    assert [name for name, _ in costly({"e-1": {}})] == ["e-1"]


COUNT = st.integers(0, 4) | st.integers(0, 10**12)
# No more tokens come from a cache than are given, and only calls of models have any.
AMOUNTS = st.builds(Amounts, st.integers(1, 4), COUNT, st.integers(4, 10**12), st.integers(0, 4), COUNT, COUNT, COUNT)
SPENT = st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from(["large", "small", "free", ""])), AMOUNTS, max_size=3)


@given(st.lists(SPENT, max_size=12), st.integers(1, 5), st.integers(1, 3))
def test_turns_are_ordered_as_their_sums_are(spents: list[Spent], most: int, pages: int) -> None:
    sums_of = UsageCollector("turn", PRICES).sums
    places = [(sums.money or 0.0, sums.tokens) for sums in (sums_of(packed(spent)) for spent in spents)]
    found = costly({str(number): spent for number, spent in enumerate(spents)}, most, pages)
    tokens = [each for _, each in sorted(places, reverse=True)][:most]
    money = [each for each, _ in sorted(places, reverse=True)][:most]
    assert [sums.money or 0.0 for _, sums in found] == pytest.approx(money)
    if len(set(money)) < len(money) and not any(money):
        assert [sums.tokens for _, sums in found] == tokens
    assert all(sums == sums_of(packed(spents[int(name)])) for name, sums in found)


def test_models_without_a_price_are_named() -> None:
    found = report("model", {"large": PRICES["large"]})
    assert (found.currency, list(found.unpriced)) == ("USD", ["small"])
    assert found.total.money == pytest.approx(11.4)
    nothing = report("", {})
    assert (nothing.currency, list(nothing.unpriced), nothing.total.money) == ("", ["large", "small"], None)


def test_a_name_comes_before_patterns_and_these_in_their_order() -> None:
    exact, first, second = (Price(input=number, output=0) for number in (1, 2, 3))
    prices = {"gemini-*": first, "*": second, "gemini-pro": exact}
    assert [price_of(model, prices) for model in ("gemini-pro", "gemini-x", "gpt")] == [exact, first, second]
    assert price_of("Gemini-pro", {"gemini-*": first}) is None


def test_prices_that_are_left_out_are_those_of_input_and_output() -> None:
    used = Amounts(llm_calls=1, input_tokens=1_000_000, cached_tokens=500_000, output_tokens=1, reasoning_tokens=999_999)
    assert cost(used, Price(input=2, output=10)) == pytest.approx(2 + 10)


@pytest.mark.parametrize("wrong", [{"input": 1}, {"input": -1, "output": 1}, {"input": 1, "output": float("nan")}, {"inputs": 1}])
def test_a_wrong_price_is_refused_by_its_field(wrong: dict[str, float]) -> None:
    with pytest.raises(DefinitionError, match=r"Price: .*(input|output)"):
        Price(**wrong)


def test_days_are_those_of_utc() -> None:
    assert [day_of(seconds) for seconds in (0, 86_399.9, 86_400, 1_795_552_945)] == [
        "1970-01-01",
        "1970-01-01",
        "1970-01-02",
        "2026-11-24",
    ]
