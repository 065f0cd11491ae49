"""What turns have used: sums of events are the sums of their packed parts, however they are split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Usage
from actors.layers.spending.rules.report import models_of_packed, sum_of_packed
from actors.rules.accounting import Amounts, Spender, Spent, add_used, amounts_of, packed, together, unpacked

COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(
    Usage,
    prompt_token_count=COUNTS,
    candidates_token_count=COUNTS,
    thoughts_token_count=COUNTS,
    cached_content_token_count=COUNTS,
    tool_use_prompt_token_count=COUNTS,
    total_token_count=COUNTS,
)


class Noted(NamedTuple):
    """An event of a turn."""

    author: str
    model: str | None
    usage: Usage | None
    tool_calls: int
    duration_s: float | None


EVENTS = st.builds(
    Noted,
    author=st.sampled_from(["user", "root", "écrivain", "a" * 40]),
    model=st.none() | st.sampled_from(["m", "gemini-2.5-flash"]),
    usage=st.none() | USAGES,
    tool_calls=st.integers(0, 9),
    duration_s=st.none() | st.floats(),
)


def fold(events: Sequence[Noted]) -> Spent:
    spent: dict[Spender, Amounts] = {}
    for event in events:
        add_used(spent, event.author, event.model, amounts_of(*event[1:]))
    return spent


@given(st.lists(st.lists(EVENTS, max_size=6), max_size=12))
def test_the_sums_of_stored_turns_are_those_of_all_their_events(turns: list[list[Noted]]) -> None:
    whole = fold([event for events in turns for event in events])
    assert sum_of_packed([packed(fold(events)) for events in turns]) == whole
    assert together(*(fold(events) for events in turns)) == whole


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("mn"), st.integers(0, 2**62)), max_size=3), max_size=9))
def test_sums_are_right_however_large_the_numbers_are(turns: list[list[tuple[str, str, int]]]) -> None:
    spents = [
        {(agent, model): Amounts(llm_calls=1, input_tokens=number % 2**40, us=number // 8) for agent, model, number in turn}
        for turn in turns
    ]
    whole = together(*spents)
    assert sum_of_packed([packed(spent) for spent in spents]) == whole
    by_model: dict[str, Amounts] = {}
    for (_, model), amounts in whole.items():
        by_model[model] = amounts.plus(by_model.get(model, Amounts()))
    assert models_of_packed([packed(spent) for spent in spents]) == by_model


@pytest.mark.parametrize("told", [2**64 - 1, -(2**63)])
def test_whatever_a_service_says_it_can_be_stored(told: int) -> None:
    usage = Usage(**dict.fromkeys(Usage.__struct_fields__, told))
    spent = fold([Noted("root", "m", usage, 1, float("inf"))] * 20_000)
    assert sum_of_packed([packed(spent)]).keys() == spent.keys()


def test_many_kinds_of_turns_are_told_apart() -> None:
    turns = [{(f"agent_{index % 40}", "m"): Amounts(llm_calls=1, input_tokens=index)} for index in range(400)]
    sums = sum_of_packed([packed(spent) for spent in turns])
    assert len(sums) == 40
    assert sums["agent_7", "m"] == Amounts(llm_calls=10, input_tokens=sum(range(7, 400, 40)))


def test_a_turn_of_thousands_of_agents_is_packed_as_well() -> None:
    spent = {(f"agent_{index:05}", "m"): Amounts(llm_calls=1, us=index) for index in range(9_000)}
    assert unpacked(packed(spent)) == sum_of_packed([packed(spent)]) == spent


def test_a_turn_that_has_used_nothing_has_sums_too() -> None:
    assert packed({}) != b""
    assert unpacked(packed({})) == sum_of_packed([packed({})]) == {}


def used(usage: Usage | None = None, *, model: str | None = "m", calls: int = 0, duration_s: float | None = None) -> Amounts:
    return amounts_of(model, usage, calls, duration_s)


def test_kinds_of_tokens_are_counted_once_each() -> None:
    told = Usage(prompt_token_count=100, cached_content_token_count=30, candidates_token_count=7, thoughts_token_count=5)
    assert used(told) == Amounts(llm_calls=1, input_tokens=100, cached_tokens=30, output_tokens=7, reasoning_tokens=5)
    assert used(Usage(prompt_token_count=100, tool_use_prompt_token_count=20)).input_tokens == 120


def test_a_service_that_tells_only_a_total_is_taken_at_its_word() -> None:
    assert used(Usage(total_token_count=9)).output_tokens == 9


def test_more_cached_tokens_than_input_are_not_believed() -> None:
    assert used(Usage(prompt_token_count=10, cached_content_token_count=99)).cached_tokens == 10


def test_negative_counts_of_a_service_take_nothing_away() -> None:
    assert used(Usage(prompt_token_count=-5, candidates_token_count=3)) == Amounts(llm_calls=1, output_tokens=3)


def test_a_response_without_counts_is_a_call() -> None:
    assert used(calls=2, duration_s=1.5) == Amounts(llm_calls=1, tool_calls=2, us=1_500_000)


def test_results_of_tools_are_no_call_of_a_model() -> None:
    assert used(model=None, duration_s=0.25) == Amounts(us=250_000)


def test_what_users_say_counts_nothing() -> None:
    told = Noted("user", "m", Usage(prompt_token_count=1), 1, 1.0)
    assert fold([told]) == {}
