"""Tool calls and answers are compared with the expected ones."""

from __future__ import annotations

import pytest

from runtime.frontends.evaluation.criteria import Match, response_match, trajectory_match
from runtime.frontends.evaluation.eval_sets import ToolUse


def calls(names: str) -> list[ToolUse]:
    return [ToolUse(name, {"n": 1}) for name in names]


@pytest.mark.parametrize(
    ("expected", "actual", "matching"),
    [
        ("", "", "EXACT IN_ORDER ANY_ORDER"),
        ("ab", "ab", "EXACT IN_ORDER ANY_ORDER"),
        ("ab", "axb", "IN_ORDER ANY_ORDER"),
        ("ab", "ba", "ANY_ORDER"),
        ("", "a", "IN_ORDER ANY_ORDER"),
        ("aa", "ab", ""),
        ("a", "", ""),
    ],
)
def test_calls_match_exactly_in_order_or_in_any_order(expected: str, actual: str, matching: str) -> None:
    matches: tuple[Match, ...] = ("EXACT", "IN_ORDER", "ANY_ORDER")
    found = [match for match in matches if trajectory_match(calls(expected), calls(actual), match, ignore_args=False)]
    assert found == matching.split()


def test_arguments_count_unless_they_are_ignored() -> None:
    one, other = [ToolUse("a", {"n": 1})], [ToolUse("a", {"n": 2})]
    assert not trajectory_match(one, other, "EXACT", ignore_args=False)
    assert trajectory_match(one, other, "EXACT", ignore_args=True)


@pytest.mark.parametrize(
    ("expected", "actual", "score"),
    [
        ("", "", 0.0),
        ("It is late.", "it IS, late", 1.0),
        ("the cat sat", "the cat", 0.8),
        ("a a b", "a", 0.5),
        ("今日は", "今日", 0.8),
        ("été", "ete", 0.0),
    ],
)
def test_answers_are_compared_by_their_words(expected: str, actual: str, score: float) -> None:
    assert response_match(expected, actual) == pytest.approx(score)
