"""Counts by agent and outcome: told apart as long as there are few, added up over actors, and timed in buckets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages import protocol as p
from actors.messages.protocol.statistics import BOUNDS_S, MODEL_CALL, SCHEDULE, TOOL_CALL, TURN, VERSION, Tally, sums
from actors.rules.accounting import MAX_SERIES, OTHERS, Tallies


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
