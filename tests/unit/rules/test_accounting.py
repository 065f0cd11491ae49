"""Counts by agent and outcome, timed in buckets; and sums of what turns have used, however they are split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Usage
from actors.layers.spending.rules.report import models_of_packed, sum_of_packed
from actors.messages import protocol as p
from actors.messages.protocol.statistics import BOUNDS_S, MODEL_CALL, SCHEDULE, TOOL_CALL, TURN, VERSION, Tally, sums
from actors.rules.accounting import (
    MAX_SERIES,
    OTHERS,
    Amounts,
    Spender,
    Spent,
    Tallies,
    add_used,
    amounts_of,
    packed,
    together,
    unpacked,
)


def told(tallies: Tallies) -> dict[tuple[str, ...], int]:
    return {(tally.kind, *tally.labels): tally.count for tally in tallies.all()}


def test_each_outcome_of_a_turn_is_counted_for_its_agent() -> None:
    tallies = Tallies()
    for outcome in (
        p.Finished(agent="root"),
        p.Finished(agent="root"),
        p.Paused(agent="root"),
        p.Cancelled(),
        p.Cancelled(timeout_s=3.0),
        p.Failed(agent="billing", error_code="KeyError"),
        p.Failed(error_code=""),
    ):
        tallies.note_turn("root", outcome, 1.0)
    assert told(tallies) == {
        (TURN, "root", "finished", ""): 2,
        (TURN, "root", "paused", ""): 1,
        (TURN, "root", "cancelled", ""): 1,
        (TURN, "root", "cancelled", "timeout"): 1,
        (TURN, "billing", "failed", "KeyError"): 1,
        (TURN, "root", "failed", "_OTHER"): 1,
    }


def test_outcomes_are_counted_by_version_with_their_times() -> None:
    tallies = Tallies()
    tallies.note_turn("root", p.Finished(), 1.0, "5d0b6f92")
    tallies.note_turn("billing", p.Finished(), 2.0, "5d0b6f92")
    tallies.note_turn("root", p.Failed(error_code="KeyError"), 1.0, "91c4e7aa")
    of_versions = {tally.labels: (tally.count, tally.total_s) for tally in tallies.all() if tally.kind == VERSION}
    assert of_versions == {("5d0b6f92", "finished"): (2, 3.0), ("91c4e7aa", "failed"): (1, 1.0)}


def test_models_tools_and_schedules_are_counted_with_how_they_ended() -> None:
    tallies = Tallies()
    tallies.note_model_call("@root", "gemini", took_s=0.02)
    tallies.note_model_call("root", "gemini", "ModelServiceError", 0.02)
    tallies.note_tool_call("root", "pay", "failed")
    tallies.note_tool_call("@root", "pay", "ok")
    tallies.note_schedule("", 0.5)
    tallies.note_schedule("the deployment was down", 0.0)
    assert told(tallies) == {
        (MODEL_CALL, "root", "gemini", ""): 1,
        (MODEL_CALL, "root", "gemini", "ModelServiceError"): 1,
        (TOOL_CALL, "root", "pay", "failed"): 1,
        (TOOL_CALL, "root", "pay", "ok"): 1,
        (SCHEDULE, "made"): 1,
        (SCHEDULE, "missed"): 1,
    }
    timed = {tally.labels: sum(tally.buckets) for tally in tallies.all() if tally.buckets}
    assert timed == {("root", "gemini", ""): 1, ("root", "gemini", "ModelServiceError"): 1, ("made",): 1}


def test_a_time_that_is_equal_to_a_bound_belongs_to_its_bucket() -> None:
    tallies = Tallies()
    for took_s in (-1.0, BOUNDS_S[0], BOUNDS_S[0] * 1.5, BOUNDS_S[-1], BOUNDS_S[-1] * 1.5):
        tallies.note_turn("root", p.Finished(), took_s)
    [tally] = tallies.all()
    assert [index for index, count in enumerate(tally.buckets) for _ in range(count)] == [0, 0, 1, 13, 14]
    assert tally.total_s == pytest.approx(BOUNDS_S[0] * 2.5 + BOUNDS_S[-1] * 2.5)


def test_of_very_many_labels_only_outcomes_stay_apart() -> None:
    tallies = Tallies()
    for number in range(3 * MAX_SERIES):
        tallies.note_turn(f"agent{number}", p.Failed(error_code=f"Error{number}"), 1.0)
        tallies.note_turn(f"agent{number}", p.Finished(), 1.0)
        tallies.note_tool_call("root", f"tool{number}", "failed")
    found = told(tallies)
    assert len(found) <= 2 * (2 * MAX_SERIES + 5)
    assert found[TURN, OTHERS, "failed", OTHERS] > 0
    assert (TURN, OTHERS, "finished", OTHERS) not in found
    ends = Counter[tuple[str, ...]]()
    for (kind, *labels), count in found.items():
        ends[kind, labels[2] if kind == TOOL_CALL else labels[1]] += count
    assert set(ends.values()) == {3 * MAX_SERIES}


def test_of_very_many_versions_the_newest_stay_apart() -> None:
    tallies = Tallies()
    for number in range(3 * MAX_SERIES):
        tallies.note_turn("root", p.Finished(), 1.0, f"v{number}")
        tallies.note_turn("root", p.Failed(error_code="Error"), 3.0, f"v{number}")
    found = {tally.labels: tally for tally in tallies.all() if tally.kind == VERSION}
    assert len(found) <= MAX_SERIES
    newest = f"v{3 * MAX_SERIES - 1}"
    assert (found[newest, "finished"].count, found[newest, "failed"].count) == (1, 1)
    for outcome, took_s in (("finished", 1.0), ("failed", 3.0)):
        of_outcome = [tally for labels, tally in found.items() if labels[1] == outcome]
        assert sum(tally.count for tally in of_outcome) == 3 * MAX_SERIES
        assert sum(sum(tally.buckets) for tally in of_outcome) == 3 * MAX_SERIES
        assert sum(tally.total_s for tally in of_outcome) == pytest.approx(took_s * 3 * MAX_SERIES)


calls = st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 200))


@given(st.lists(st.lists(calls, max_size=8), min_size=1, max_size=4))
def test_sums_over_actors_are_those_of_one_that_has_seen_all(parts: list[list[tuple[str, bool, float]]]) -> None:
    def counted(seen: list[tuple[str, bool, float]]) -> list[Tally]:
        tallies = Tallies()
        for model, is_timed, took_s in seen:
            tallies.note_model_call("root", model, took_s=round(took_s) if is_timed else None)
        return list(tallies.all())

    whole = counted([each for part in parts for each in part])
    assert {tally.labels: tally for tally in sums([counted(part) for part in parts])} == {tally.labels: tally for tally in whole}


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


@pytest.mark.parametrize(
    ("usage", "amounts"),
    [
        pytest.param(
            Usage(prompt_token_count=100, cached_content_token_count=30, candidates_token_count=7, thoughts_token_count=5),
            Amounts(llm_calls=1, input_tokens=100, cached_tokens=30, output_tokens=7, reasoning_tokens=5),
            id="each kind of tokens counts once",
        ),
        pytest.param(
            Usage(prompt_token_count=100, tool_use_prompt_token_count=20),
            Amounts(llm_calls=1, input_tokens=120),
            id="tokens of tools are input",
        ),
        pytest.param(
            Usage(total_token_count=9), Amounts(llm_calls=1, output_tokens=9), id="a service that says only a total is believed"
        ),
        pytest.param(
            Usage(prompt_token_count=10, cached_content_token_count=99),
            Amounts(llm_calls=1, input_tokens=10, cached_tokens=10),
            id="more cached tokens than input are not believed",
        ),
        pytest.param(
            Usage(prompt_token_count=-5, candidates_token_count=3),
            Amounts(llm_calls=1, output_tokens=3),
            id="negative counts take nothing away",
        ),
        pytest.param(None, Amounts(llm_calls=1), id="a response without counts is a call"),
    ],
)
def test_what_a_service_says_is_counted(usage: Usage | None, amounts: Amounts) -> None:
    assert amounts_of("m", usage, 0, None) == amounts
    assert amounts_of("m", usage, 2, 1.5) == amounts.plus(Amounts(tool_calls=2, us=1_500_000))


def test_results_of_tools_are_no_call_of_a_model() -> None:
    assert amounts_of(None, None, 0, 0.25) == Amounts(us=250_000)


def test_what_users_say_counts_nothing() -> None:
    told = Noted("user", "m", Usage(prompt_token_count=1), 1, 1.0)
    assert fold([told]) == {}
