"""Which commits an event loop makes itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.capacity.lone_commits import COST, ENOUGH, QUICK_S, SLOW_S, SMALL, LoneCommits

QUICK, SLOW, LARGE, ENDLESS = (1, QUICK_S), (SMALL, SLOW_S), (SMALL + 1, 0.0), (1, SLOW_S * 1.01)
KINDS = st.sampled_from([QUICK, SLOW, LARGE, ENDLESS])


def after(*commits: tuple[int, float]) -> bool:
    lone = LoneCommits()
    for commit in commits:
        lone.note(*commit)
    return lone.may_be_at_once


def test_the_first_ones_go_to_the_thread() -> None:
    assert [after(*[QUICK] * count) for count in range(COST + 1)] == [False] * COST + [True]


@pytest.mark.parametrize("kind", [LARGE, ENDLESS])
def test_after_a_large_one_and_a_very_slow_one_all_begins_again(kind: tuple[int, float]) -> None:
    assert not after(*[QUICK] * 100, kind, *[QUICK] * (COST - 1))
    assert after(*[QUICK] * 100, kind, *[QUICK] * COST)


def test_one_slow_one_now_and_then_changes_nothing_and_two_in_a_row_do() -> None:
    assert after(*[QUICK] * ENOUGH, *([SLOW] + [QUICK] * COST) * 10, SLOW)
    assert not after(*[QUICK] * 100, SLOW, SLOW)


@given(st.lists(KINDS, max_size=100))
def test_for_each_commit_that_an_event_loop_waited_for_long_there_were_quick_ones(commits: list[tuple[int, float]]) -> None:
    lone, waited_long = LoneCommits(), 0
    for commit in commits:
        waited_long += lone.may_be_at_once and commit != QUICK
        lone.note(*commit)
    assert waited_long * COST <= commits.count(QUICK)


@given(st.lists(KINDS, max_size=50))
def test_quick_ones_alone_are_enough_whatever_was_before(commits: list[tuple[int, float]]) -> None:
    assert after(*commits, *[QUICK] * ENOUGH)
