"""What fits into a budget: what is used, under way and wanted together."""

from __future__ import annotations

from actors import Blob, Budget, Content, FunctionCall, FunctionResponse, LlmRequest, Part, Price
from actors.layers.spending.rules.budgets import Excess, LikelyCall, excess_of_call, excess_of_tools, likely_call, tokens_of
from actors.rules.accounting.turn_usage import Amounts, Spent

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
